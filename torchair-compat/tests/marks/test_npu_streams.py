"""Compiled functions may use streams and events of torch.npu."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo import graph_break
from torch._dynamo.exc import Unsupported

import anabranch
import torchair

BACKENDS = {
    "npugraph_ex": lambda: "npugraph_ex",
    "max-autotune": torchair.get_npu_backend,
}


def check(function, *inputs, backend="npugraph_ex"):
    torch.npu.set_stream(torch.npu.default_stream())
    run = torch.compile(function, backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(run(*inputs), function(*inputs))


ONE, TWO = "npu_stream_1", "npu_stream_2"
RECORD, WAIT = "anabranch::record", "anabranch::wait_event"


@pytest.mark.parametrize("backend", BACKENDS)
def test_streams_and_events_made_inside(compiled_nodes, backend) -> None:
    def function(a, b, c, d):
        first, second = torch.npu.Stream(), torch.npu.Stream()
        added, multiplied = torch.npu.Event(), torch.npu.Event()
        total = a + b
        product = c - d
        added.record()
        with torch.npu.stream(first):
            added.wait(first)
            mm = product @ d
            multiplied.record()
            product.record_stream(first)
        other = c @ d
        with torch.npu.stream(second):
            multiplied.wait(second)
            last = c.exp()
        return total, mm, other, last

    inputs = [torch.randn(8, 8) for _ in range(4)]
    check(function, *inputs, backend=BACKENDS[backend]())
    assert compiled_nodes == [
        [
            ("aten::add.Tensor", None),
            ("aten::sub.Tensor", None),
            (RECORD, None),
            (WAIT, ONE),
            ("aten::mm", ONE),
            (RECORD, ONE),
            ("aten::mm", None),
            (WAIT, TWO),
            ("aten::exp", TWO),
        ]
    ]
    assert anabranch.counters.fallback_calls == 0


def test_a_stream_is_a_context(compiled_nodes) -> None:
    def function(x):
        side = torch.npu.Stream()
        with side:
            y = x.exp()
            assert torch.npu.current_stream() is side
        return y, x.sin()

    check(function, torch.randn(8))
    assert compiled_nodes == [[("aten::exp", ONE), ("aten::sin", None)]]
    outer, inner = torch.npu.Stream(), torch.npu.Stream()
    with outer as entered:
        with inner, outer:
            assert torch.npu.current_stream() is outer
        assert torch.npu.current_stream() is entered is outer
    assert torch.npu.current_stream() is torch.npu.default_stream()


class Sided(torch.nn.Module):
    """A module that has streams of its own."""

    def __init__(self):
        super().__init__()
        self.side, self.other = torch.npu.Stream(), torch.npu.Stream()

    def forward(self, x, given):
        with self.side as entered:
            y = x.exp()
            with given, self.other:
                z = x.sin()
            with given:
                w = x.cos()
                entered.wait_stream(given)
        assert entered is self.side
        return y, z, w, x.tan()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_stream_made_outside_is_a_context(compiled_nodes, backend) -> None:
    model = Sided()
    for given in (torch.npu.Stream(), torch.npu.Stream()):
        check(model, torch.randn(8), given, backend=BACKENDS[backend]())
    assert torch.npu.current_stream() is torch.npu.default_stream()
    nodes = [
        ("aten::exp", ONE),
        ("aten::sin", "npu_stream_3"),
        ("aten::cos", TWO),
        (RECORD, TWO),
        (WAIT, ONE),
        ("aten::tan", None),
    ]
    assert compiled_nodes[0] == nodes

    def inside(x):
        with model.side:
            y = x + 1
            graph_break()
            return y

    with pytest.raises(Unsupported, match=r"breaks inside of torch.npu.stream"):
        torch.compile(inside, backend=BACKENDS[backend]())(torch.randn(4))


def test_streams_and_events_made_outside(compiled_nodes) -> None:
    side, event = torch.npu.Stream(), torch.npu.Event()

    def function(x):
        event.wait()  # nobody has recorded it, or an earlier graph has
        with torch.npu.stream(side):
            y = x.exp()
            with torch.npu.stream(torch.npu.default_stream()):
                z = x.sin()
            with torch.npu.stream(None):
                w = x.cos()
        event.record(side)
        torch.npu.current_stream().wait_event(event)
        return y, z, w, x.tan()

    check(function, torch.randn(8))
    assert compiled_nodes == [
        [
            ("aten::exp", ONE),
            ("aten::sin", None),
            ("aten::cos", ONE),
            (RECORD, ONE),
            (WAIT, None),
            ("aten::tan", None),
        ]
    ]


def test_a_stream_waits_for_another(compiled_nodes) -> None:
    side = torch.npu.Stream()

    def function(x):
        y = x.exp()
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            z = x.sin()
            assert torch.npu.current_stream() is side
            event = torch.npu.current_stream().record_event()
        event.wait()
        return y, z, x.cos()

    check(function, torch.randn(8))
    assert [stream for _, stream in compiled_nodes[0]] == [
        None,
        None,
        ONE,
        ONE,
        ONE,
        None,
        None,
    ]
    assert [name for name, _ in compiled_nodes[0]].count(WAIT) == 2


def test_a_stream_that_is_set_lasts(compiled_nodes) -> None:
    side, other = torch.npu.Stream(), torch.npu.Stream()

    def function(x):
        a = x.exp()
        with torch.npu.stream(other):
            torch.npu.set_stream(side)
            b = x.sin()
        c = x.cos()
        torch.npu.set_stream(other)
        d = x.tan()
        torch.npu.set_stream(torch.npu.default_stream())
        return a, b, c, d, x.tanh()

    check(function, torch.randn(8))
    streams = [stream for _, stream in compiled_nodes[0]]
    assert streams[0] is streams[2] is streams[4] is None
    assert None not in (streams[1], streams[3])
    assert streams[1] != streams[3]


def test_streams_of_any_number_and_a_scope(compiled_nodes) -> None:
    streams = [torch.npu.Stream() for _ in range(3)]

    def function(x):
        parts = []
        for stream in streams:
            with torch.npu.stream(stream):
                parts.append(x.exp())
        with torchair.scope.npu_stream_switch("mine"):
            parts.append(x.exp())
        return parts

    check(function, torch.randn(8))
    names = [stream for _, stream in compiled_nodes[0]]
    assert names == [ONE, TWO, "npu_stream_3", "mine"]


def test_breaks_before_in_and_after() -> None:
    side = torch.npu.Stream()

    def outside(x):
        y = x + 1
        graph_break()
        with torch.npu.stream(side):
            y = y * 2
        graph_break()
        return y - 3

    def inside(x):
        with torch.npu.stream(side):
            y = x + 1
            graph_break()
            return y

    x = torch.randn(4)
    found = torch.compile(outside, backend="npugraph_ex")(x)
    torch.testing.assert_close(found, (x + 1) * 2 - 3)
    assert anabranch.counters.kernels > 0
    with pytest.raises(
        Unsupported,
        match=r"(?s)breaks inside of torch.npu.stream.*scope: .*test_npu_streams.py",
    ):
        torch.compile(inside, backend="npugraph_ex")(x)


def test_eager_streams_do_nothing_and_time() -> None:
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    start.record()
    x = torch.ones(2)
    x.record_stream(torch.npu.Stream())
    end.record()
    assert start.elapsed_time(end) >= 0
    with pytest.raises(RuntimeError, match="a compiled function records have no time"):
        start.elapsed_time(torch.npu.Event(enable_timing=True))
