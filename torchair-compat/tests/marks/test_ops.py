"""torchair.ops: events and waits order operators."""

from __future__ import annotations

import pytest
import torch

import torchair as tng
from pictures import all_of, compiled, only, orders, pictures
from torchair import ops


@pytest.fixture
def graphs(monkeypatch):
    return pictures(monkeypatch)


@pytest.fixture
def event(monkeypatch):
    monkeypatch.setattr(ops, "_events", {})
    return ops.npu_create_tagged_event("loaded")


@pytest.mark.checklist("T053")
def test_a_record_stands_for_what_came_before(graphs) -> None:
    def function(x):
        a = x + 1
        event = ops.record()
        with tng.scope.npu_stream_switch("1"):
            ops.wait([event])
            b = x.exp()
            c = x.sin()
        return a, b, c

    x = torch.randn(4)
    found = compiled(function)(x)
    torch.testing.assert_close(found, (x + 1, x.exp(), x.sin()))
    assert orders(only(graphs[-1], "Exp")) == ["Add"]
    assert orders(only(graphs[-1], "Sin")) == []


@pytest.mark.checklist("T053")
def test_waits_for_tensors_add_up(graphs) -> None:
    def function(x):
        a, b = x + 1, x * 2
        with tng.scope.npu_stream_switch("1"):
            ops.wait([a])
            ops.wait([b, a, x])
            c = x.exp()
        return a, b, c

    compiled(function)(torch.randn(4))
    assert orders(only(graphs[-1], "Exp")) == ["Add", "Mul"]


@pytest.mark.checklist("T053")
def test_record_with_nothing_before(graphs) -> None:
    def function(x):
        event = ops.record()
        with tng.scope.npu_stream_switch("1"):
            ops.wait([event])
            return x.exp()

    x = torch.randn(4)
    torch.testing.assert_close(compiled(function)(x), x.exp())
    assert orders(only(graphs[0], "Exp")) == [only(graphs[0], "NoOp").name]


@pytest.mark.checklist("T054")
def test_wait_checks_its_arguments() -> None:
    for nothing in (None, []):
        with pytest.raises(ValueError, match="requires at least one tensor input"):
            ops.wait(nothing)
    with pytest.raises(ValueError, match=r"arguments of .* must be torch\.Tensor"):
        ops.wait([3])


def test_eager_events_do_nothing() -> None:
    event = ops.record()
    assert event.numel() == 0
    assert ops.wait([event, torch.ones(2)]) is None


@pytest.mark.checklist("T055")
def test_tagged_events_are_known_by_their_tag(event) -> None:
    with pytest.raises(ValueError, match="tagged event tag loaded is already in use"):
        ops.npu_create_tagged_event("loaded")
    ops.npu_tagged_event_record(event)
    ops.npu_tagged_event_wait(event)
    for other in (type(event)("loaded"), "loaded", None):
        with pytest.raises(ValueError, match=r"tagged event .* is not in use"):
            ops.npu_tagged_event_record(other)


@pytest.mark.filterwarnings("ignore")
def test_tagged_events_in_capture_modes(event, config, graphs) -> None:
    config.mode = "npugraph_ex"

    def function(x):
        a = x + 1
        ops.npu_tagged_event_record(event)
        with tng.scope.npu_stream_switch("1"):
            ops.npu_tagged_event_wait(event)
            b = x.exp()
        ops.npu_record_tagged_stream(a, "1")
        return a, b

    x = torch.randn(4)
    torch.testing.assert_close(compiled(function, config)(x), (x + 1, x.exp()))


@pytest.mark.checklist("T055")
@pytest.mark.parametrize(
    ("use", "name"),
    [
        (lambda x, e: ops.npu_tagged_event_record(e), "tagged_event_record"),
        (lambda x, e: ops.npu_tagged_event_wait(e), "tagged_event_wait"),
        (lambda x, e: ops.npu_record_tagged_stream(x, "1"), "record_tagged_stream"),
    ],
)
def test_tagged_events_are_not_for_max_autotune(event, use, name) -> None:
    def function(x):
        use(x, event)
        return x + 1

    text = rf"torch\.ops\.air\.{name}\.default ge_converter is not implemented!"
    with pytest.raises(NotImplementedError, match=text):
        compiled(function)(torch.randn(4))


def test_events_in_a_loop(graphs) -> None:
    def function(x):
        for i in range(3):
            with tng.scope.npu_stream_switch(str(i % 2)):
                x = x.exp()
                event = ops.record()
            ops.wait([event])
        return x

    x = torch.randn(4) / 10
    torch.testing.assert_close(compiled(function)(x), x.exp().exp().exp())
    assert len(all_of(graphs[0], "Exp")) == 3
