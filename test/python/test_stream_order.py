"""What really ran when, of random graphs with streams: every order that the
source asks for, by the begin and end of each command in a trace; and the same
bits as on one stream, with any number of threads.

Every function is captured once; MARKINGS graphs are made of it, which differ in
their streams, priorities and limits. ANABRANCH_STREAM_GRAPHS says how many graphs
there are, where more than a few are wanted, ANABRANCH_STREAM_SEED which seed is the
first.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
import torch
from stream_graphs import ARGUMENTS, Graph
from variants import Variants

import anabranch
from anabranch import _C
from anabranch.trace.trace_file import Execution, TraceData, read_trace

MARKINGS = 8
GRAPHS = int(os.environ.get("ANABRANCH_STREAM_GRAPHS", "48"))
FIRST = int(os.environ.get("ANABRANCH_STREAM_SEED", "0"))


@pytest.fixture(autouse=True)
def default_threads():
    yield
    _C.set_default_threads(0)


def compiled(function, **options):
    return torch.compile(
        function, backend=anabranch.anabranch, options=options, fullgraph=True
    )


def arguments(seed: int, size: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scale = size**-0.5
    return [torch.randn(size, size, generator=generator) * scale for _ in ARGUMENTS]


def outcome(function, seed: int, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The results and what was written, from one state of random numbers."""
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
        # The launches of a super kernel have lines of their own. Memory that is to
        # be written is made at any time, under the line of an equal one.
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
            # What is written late has been computed before.
            end = min(execution.end for execution in ran[line])
            assert end <= first, f"line {step.line} began before the end of {line}"
        written = max(execution.begin for execution in ran[step.line])
        for line in step.readers | step.draws:
            end = max(execution.end for execution in ran[line])
            assert end <= written, f"line {step.line} overwrote what {line} reads"


def assert_near(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    """Up to rounding, by the largest element: products of many factors."""
    for ours, theirs in zip(found, expected, strict=True):
        most = max(1e-3, theirs.abs().max().item())
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 * most)


def overlaps(trace: TraceData) -> int:
    """Pairs of commands that ran beside each other."""
    [call] = trace.calls.values()
    return sum(
        a.begin < b.end and b.begin < a.end
        for a, b in itertools.combinations(call.executions.values(), 2)
    )


def programs(seed: int, supers: bool = False) -> tuple[list[Graph], Variants]:
    """The graphs of one seed, each with its streams, and one without any."""
    graphs = [Graph(seed, marking, supers) for marking in range(MARKINGS)]
    alone = {"streams": "off", "super_kernels": "off"}
    options: dict[str, dict[str, str]] = {"alone": alone}
    for number, graph in enumerate(graphs):
        hazards = "error" if graph.is_safe() and not supers else "wait"
        options[str(number)] = {"hazards": hazards}

    def mark(name: str, module: torch.fx.GraphModule) -> None:
        if name == "0":
            # What the scopes of the source have written is what `mark` writes.
            assert graphs[0].is_marked(module)
        elif name != "alone":
            graphs[int(name)].mark(module)

    return graphs, Variants(options, mark)


def keeps_order(run, graph: Graph, seed: int, inputs, file: Path, expected) -> int:
    """One call without and one with a trace; how many commands overlapped."""
    assert all(map(torch.equal, outcome(run, seed, inputs), expected))
    with anabranch.profile(file.with_name("trace.json")):
        traced = outcome(run, seed, inputs)
    assert all(map(torch.equal, traced, expected))
    trace = read_trace(file.with_name("trace.json"))
    assert_order(graph, by_line(trace, file))
    return overlaps(trace)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + GRAPHS // MARKINGS))
def test_random_graphs_keep_every_order_and_bit(seed, tmp_path, record_property):
    graphs, variants = programs(seed)
    function = graphs[0].function(tmp_path)
    symbolic, size = seed % 4 == 3, graphs[0].size
    sizes = (size, size + 9) if symbolic else (size,)
    run = variants.compile(function, symbolic)
    single = {}
    for size in sizes:
        expected = outcome(function, seed, arguments(seed, size))
        single[size] = outcome(run, seed, arguments(seed, size))
        assert_near(single[size], expected)
    together = 0
    for (number, graph), threads, size in itertools.product(
        enumerate(graphs), (1, 2, 3, 7), sizes
    ):
        variants.chosen = str(number)
        _C.set_default_threads(threads)
        file, inputs = tmp_path / "graph.py", arguments(seed, size)
        pairs = keeps_order(run, graph, seed, inputs, file, single[size])
        assert threads > 1 or not pairs
        together += pairs
    record_property("overlaps", together)


def test_limit_cores_bounds_the_workers_of_a_command(tmp_path):
    """The innermost limit decides, also inside a stream."""

    def function(x):
        with anabranch.limit_cores(2):
            a = x.exp()
            with anabranch.stream("s"), anabranch.limit_cores(3):
                b = x.sin()
                with anabranch.limit_cores(1):
                    c = x.cos()
            d = x.tanh()
        return a, b, c, d, x.sqrt()

    first = function.__code__.co_firstlineno
    limits = {2: 2, 4: 3, 6: 1, 7: 2}
    run = compiled(function, streams="marked", threads=7)
    x = torch.rand(400_000)
    with torch.no_grad():
        run(x)
        most: dict[int, int] = {}
        for calls in range(60):
            if calls >= 5 and max(most.values()) > 1:
                break
            with anabranch.profile(tmp_path / "trace.json"):
                run(x)
            ran = by_line(read_trace(tmp_path / "trace.json"), Path(__file__))
            for line, executions in ran.items():
                [execution] = executions
                number = line - first
                most[number] = max(most.get(number, 0), at_once(execution))
    for line, limit in limits.items():
        assert most[line] <= limit
    if max(most.values()) == 1:
        pytest.skip("no second CPU was free in 60 calls")


def at_once(execution: Execution) -> int:
    """The most threads that were inside a command at one time."""
    ends = [(piece.begin, 1) for piece in execution.pieces]
    ends += [(piece.end, -1) for piece in execution.pieces]
    inside = most = 0
    for _, change in sorted(ends):
        inside += change
        most = max(most, inside)
    return most


def test_a_broken_order_is_seen(tmp_path):
    """The check itself: two lines that would each have to come first."""
    graph = next(g for g in map(Graph, range(50)) if len(g.steps) > 3)
    run = compiled(graph.function(tmp_path), streams="marked", hazards="wait")
    with anabranch.profile(tmp_path / "trace.json"):
        outcome(run, 0, arguments(0, graph.size))
    ran = by_line(read_trace(tmp_path / "trace.json"), tmp_path / "graph.py")
    assert_order(graph, ran)
    graph.steps[-1].needs.add(graph.steps[0].line)
    graph.steps[0].needs.add(graph.steps[-1].line)
    with pytest.raises(AssertionError, match="began before the end"):
        assert_order(graph, ran)
