"""What really ran when, of random graphs with streams: every order that the
source asks for, by the begin and end of each command in a trace; and the same
bits as on one stream, with any number of threads.

ANABRANCH_STREAM_GRAPHS says how many graphs, where more than a few are wanted.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from stream_graphs import ARGUMENTS, SIZE, Graph

import anabranch
from anabranch import _C
from anabranch.tracefile import Execution, TraceData, read_trace

GRAPHS = int(os.environ.get("ANABRANCH_STREAM_GRAPHS", "16"))


@pytest.fixture(autouse=True)
def default_threads():
    yield
    _C.set_default_threads(0)


def compiled(function, **options):
    return torch.compile(
        function, backend=anabranch.anabranch, options=options, fullgraph=True
    )


def arguments(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(SIZE, SIZE, generator=generator) / 4 for _ in ARGUMENTS]


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
        if name == str(file):
            found.setdefault(int(line), []).append(execution)
    return found


def assert_order(graph: Graph, ran: dict[int, list[Execution]]) -> int:
    """Returns how many orders were seen to hold."""
    seen = 0
    for step in graph.steps:
        assert step.line in ran, f"line {step.line} has no command"
        first = min(execution.begin for execution in ran[step.line])
        for line in step.needs:
            # What is written late has been computed before.
            end = min(execution.end for execution in ran[line])
            assert end <= first, f"line {step.line} began before the end of {line}"
            seen += 1
        written = max(execution.begin for execution in ran[step.line])
        for line in step.readers:
            end = min(execution.end for execution in ran[line])
            assert end <= written, f"line {step.line} overwrote what {line} reads"
    return seen


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_random_graphs_keep_every_order_and_bit(seed, tmp_path):
    graph = Graph(seed)
    function = graph.function(tmp_path)
    inputs = arguments(seed)
    expected = outcome(function, seed, inputs)
    single = outcome(compiled(function, streams="off"), seed, inputs)
    torch.testing.assert_close(single, expected, rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()
    run = compiled(function, streams="marked", hazards="wait")
    seen = 0
    for threads in (1, 2, 3, 7):
        _C.set_default_threads(threads)
        assert all(map(torch.equal, outcome(run, seed, inputs), single))
        with anabranch.profile(tmp_path / "trace.json"):
            traced = outcome(run, seed, inputs)
        assert all(map(torch.equal, traced, single))
        trace = read_trace(tmp_path / "trace.json")
        seen += assert_order(graph, by_line(trace, tmp_path / "graph.py"))
    assert seen or all(not step.needs for step in graph.steps)


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
        for _ in range(5):
            with anabranch.profile(tmp_path / "trace.json"):
                run(x)
            ran = by_line(read_trace(tmp_path / "trace.json"), Path(__file__))
            for line, executions in ran.items():
                [execution] = executions
                number = line - first
                most[number] = max(most.get(number, 0), at_once(execution))
    for line, limit in limits.items():
        assert most[line] <= limit
    assert max(most.values()) > 1, "nothing was shared"


def at_once(execution: Execution) -> int:
    """The most threads that were inside a command at one time."""
    ends = [(piece.begin, 1) for piece in execution.pieces]
    ends += [(piece.end, -1) for piece in execution.pieces]
    inside = most = 0
    for _, change in sorted(ends):
        inside += change
        most = max(most, inside)
    return most
