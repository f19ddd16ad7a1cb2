"""What really ran when, of random graphs with streams: every order that the
source asks for, by the begin and end of each command in a trace; and the same
bits as on one stream, with any number of threads.

ANABRANCH_STREAM_GRAPHS says how many graphs, where more than a few are wanted.
"""

from __future__ import annotations

import itertools
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


def compiled(function, dynamic=None, **options):
    return torch.compile(
        function,
        backend=anabranch.anabranch,
        options=options,
        fullgraph=True,
        dynamic=dynamic or None,
    )


def arguments(seed: int, size: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, size, generator=generator) / 4 for _ in ARGUMENTS]


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
        # The launches of a super kernel have lines of their own.
        if name == str(file) and execution.about["kind"] != "super":
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


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_random_graphs_keep_every_order_and_bit(seed, tmp_path):
    graph = Graph(seed)
    function = graph.function(tmp_path)
    symbolic = seed % 4 == 3
    sizes = (SIZE, SIZE + 9) if symbolic else (SIZE,)
    single = {}
    alone = compiled(function, symbolic, streams="off")
    for size in sizes:
        expected = outcome(function, seed, arguments(seed, size))
        single[size] = outcome(alone, seed, arguments(seed, size))
        torch.testing.assert_close(single[size], expected, rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()
    hazards = "error" if graph.is_safe() else "wait"
    run = compiled(function, symbolic, streams="marked", hazards=hazards)
    for threads, size in itertools.product((1, 2, 3, 7), sizes):
        _C.set_default_threads(threads)
        inputs = arguments(seed, size)
        assert all(map(torch.equal, outcome(run, seed, inputs), single[size]))
        with anabranch.profile(tmp_path / "trace.json"):
            traced = outcome(run, seed, inputs)
        assert all(map(torch.equal, traced, single[size]))
        trace = read_trace(tmp_path / "trace.json")
        assert_order(graph, by_line(trace, tmp_path / "graph.py"))


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
        outcome(run, 0, arguments(0, SIZE))
    ran = by_line(read_trace(tmp_path / "trace.json"), tmp_path / "graph.py")
    assert_order(graph, ran)
    graph.steps[-1].needs.add(graph.steps[0].line)
    graph.steps[0].needs.add(graph.steps[-1].line)
    with pytest.raises(AssertionError, match="began before the end"):
        assert_order(graph, ran)
