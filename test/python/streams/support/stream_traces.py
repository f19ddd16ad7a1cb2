"""Runs random graphs with streams under a trace, and checks the order of their
commands."""

from __future__ import annotations

import itertools
from pathlib import Path

import torch
from stream_graphs import ARGUMENTS, Graph
from variants import Variants

import anabranch
from anabranch.trace.trace_file import Execution, TraceData, read_trace

MARKINGS = 8


def compiled(function, **options):
    return torch.compile(
        function, backend=anabranch.anabranch, options=options, fullgraph=True
    )


def arguments(seed: int, size: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scale = size**-0.5
    return [torch.randn(size, size, generator=generator) * scale for _ in ARGUMENTS]


def outcome(function, seed: int, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The results and the written arguments, from one state of random numbers."""
    torch.manual_seed(seed)
    own = [tensor.clone() for tensor in inputs]
    with torch.no_grad():
        results = function(*own)
    return [*results, own[ARGUMENTS.index("cache")], torch.get_rng_state()]


def by_line(trace: TraceData, file: Path) -> dict[int, list[Execution]]:
    [call] = trace.calls.values()
    found: dict[int, list[Execution]] = {}
    for execution in call.executions.values():
        name, _, line = execution.about["source"].rpartition(":")
        # The launches of a super kernel have lines of their own. Memory for a write may
        # be allocated at any time, under the line of an equal command.
        about = execution.about
        made = about["kind"] == "launch" and about["name"].startswith("k_empty")
        if name == str(file) and about["kind"] != "super" and not made:
            found.setdefault(int(line), []).append(execution)
    return found


def assert_order(graph: Graph, ran: dict[int, list[Execution]]) -> None:
    for step in graph.steps:
        assert step.line in ran, f"line {step.line} has no command"
        first = min(execution.begin for execution in ran[step.line])
        for line in step.needs:
            # A value that is written late was computed before.
            end = min(execution.end for execution in ran[line])
            assert end <= first, f"line {step.line} began before the end of {line}"
        written = max(execution.begin for execution in ran[step.line])
        for line in step.readers | step.draws:
            end = max(execution.end for execution in ran[line])
            assert end <= written, f"line {step.line} overwrote what {line} reads"


def assert_near(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    """Equal up to rounding, as a part of the largest element: products have many
    factors."""
    for ours, theirs in zip(found, expected, strict=True):
        most = max(1e-3, theirs.abs().max().item())
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 * most)


def overlaps(trace: TraceData) -> int:
    """Pairs of commands that ran at the same time."""
    [call] = trace.calls.values()
    return sum(
        a.begin < b.end and b.begin < a.end
        for a, b in itertools.combinations(call.executions.values(), 2)
    )


def programs(seed: int, supers: bool = False) -> tuple[list[Graph], Variants]:
    """The graphs of one seed: several with streams, and one without."""
    graphs = [Graph(seed, marking, supers) for marking in range(MARKINGS)]
    alone = {"streams": "off", "super_kernels": "off"}
    options: dict[str, dict[str, str]] = {"alone": alone}
    for number, graph in enumerate(graphs):
        hazards = "error" if graph.is_safe() and not supers else "wait"
        options[str(number)] = {"hazards": hazards}

    def mark(name: str, module: torch.fx.GraphModule) -> None:
        if name == "0":
            # `mark` writes what the scopes of the source have written.
            assert graphs[0].is_marked(module)
        elif name != "alone":
            graphs[int(name)].mark(module)

    return graphs, Variants(options, mark)


def keeps_order(run, graph: Graph, seed: int, inputs, file: Path, expected) -> int:
    """One call without and one with a trace. Returns how many commands overlapped."""
    assert all(map(torch.equal, outcome(run, seed, inputs), expected))
    with anabranch.profile(file.with_name("trace.json")):
        traced = outcome(run, seed, inputs)
    assert all(map(torch.equal, traced, expected))
    trace = read_trace(file.with_name("trace.json"))
    assert_order(graph, by_line(trace, file))
    return overlaps(trace)
