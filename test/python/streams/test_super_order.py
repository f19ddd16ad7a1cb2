"""Super kernels that fuse streams keep every order that waits and events ask for. A trace
shows when each launch began and ended. The bits are those without the scopes, with any
number of workers.

ANABRANCH_SUPER_GRAPHS sets the number of graphs, ANABRANCH_SUPER_SEED the first seed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from stream_traces import (
    MARKINGS,
    arguments,
    assert_near,
    by_line,
    compiled,
    keeps_order,
    outcome,
    programs,
)

import anabranch
from anabranch import _C
from anabranch.trace.trace_file import read_trace

GRAPHS = int(os.environ.get("ANABRANCH_SUPER_GRAPHS", "24"))
FIRST = int(os.environ.get("ANABRANCH_SUPER_SEED", "0"))
SIZE = 64  # worth sharing


@pytest.fixture(autouse=True)
def default_threads():
    yield
    _C.set_default_threads(0)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + -(-GRAPHS // MARKINGS)))
def test_random_graphs_keep_what_is_asked_for_and_every_bit(seed, tmp_path):
    graphs, variants = programs(seed, supers=True)
    function = graphs[0].function(tmp_path)
    run, inputs = variants.compile(function), arguments(seed, SIZE)
    wanted = outcome(run, seed, inputs)
    assert_near(wanted, outcome(function, seed, inputs))
    for number, graph in enumerate(graphs):
        variants.chosen = str(number)
        for threads in (1, 2, 3, 7):
            _C.set_default_threads(threads)
            file = tmp_path / "graph.py"
            keeps_order(run, graph, seed, inputs, file, wanted)


def model(x, w):
    """A model of two long launches that share no bytes. The second waits for the first."""
    with anabranch.super_kernel("s", "stream-fusion=1"):
        with anabranch.stream("left"):
            a = (x @ w).softmax(-1)
            done = anabranch.record()
        with anabranch.stream("right"):
            anabranch.wait_event(done)
            b = (w @ x).softmax(0)
        c = anabranch.wait(x, b) @ w.t()
    return a, b, c


def test_waits_and_events_hold_inside(tmp_path):
    first = model.__code__.co_firstlineno
    x, w = torch.randn(192, 192), torch.randn(192, 192)
    run = compiled(model, streams="marked", cache=False)
    _C.set_default_threads(3)
    with torch.no_grad():
        run(x, w)
        for _ in range(20):
            with anabranch.profile(tmp_path / "trace.json"):
                run(x, w)
            ran = by_line(read_trace(tmp_path / "trace.json"), Path(__file__))
            for before, after in ((4, 8), (8, 9)):
                end = max(execution.end for execution in ran[first + before])
                begin = min(execution.begin for execution in ran[first + after])
                assert end <= begin
    report = anabranch.last_report()
    assert [(e["name"], e["streams"]) for e in report["super_kernels"]] == [("s_0", 3)]
