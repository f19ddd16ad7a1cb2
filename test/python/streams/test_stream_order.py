"""Random graphs with streams run in every order that their source asks for. A trace
shows when each command began and ended. The bits are those of one stream, with any
number of threads.

Each function is captured once. It gives MARKINGS graphs, which differ in their streams,
priorities and limits. ANABRANCH_STREAM_GRAPHS sets the number of graphs,
ANABRANCH_STREAM_SEED the first seed.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
import torch
from stream_graphs import Graph
from stream_traces import (
    MARKINGS,
    arguments,
    assert_near,
    assert_order,
    by_line,
    compiled,
    keeps_order,
    outcome,
    programs,
)

import anabranch
from anabranch import _C
from anabranch.trace.trace_file import Execution, read_trace

GRAPHS = int(os.environ.get("ANABRANCH_STREAM_GRAPHS", "48"))
FIRST = int(os.environ.get("ANABRANCH_STREAM_SEED", "0"))


@pytest.fixture(autouse=True)
def default_threads():
    yield
    _C.set_default_threads(0)


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
    """The innermost limit decides, inside a stream too."""

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
    """The largest number of threads that were inside a command at one time."""
    ends = [(piece.begin, 1) for piece in execution.pieces]
    ends += [(piece.end, -1) for piece in execution.pieces]
    inside = most = 0
    for _, change in sorted(ends):
        inside += change
        most = max(most, inside)
    return most


def test_a_broken_order_is_seen(tmp_path):
    """The check fails for two lines that must each come before the other."""
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
