"""Events: points in the order of a stream, and waits for them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from . import _air  # noqa: F401 - defines torch.ops.air

__all__ = [
    "npu_create_tagged_event",
    "npu_record_tagged_stream",
    "npu_tagged_event_record",
    "npu_tagged_event_wait",
    "record",
    "wait",
]


def record() -> torch.Tensor:
    """An event: all that the current stream has been given so far. For `wait`."""
    return torch.ops.air.record()


def wait(tensors: Sequence[torch.Tensor]) -> None:
    """What the current stream is given next begins after `tensors` have been
    computed; an event of `record` stands for what came before it."""
    if not tensors:
        raise ValueError("torchair.ops.wait() requires at least one tensor input")
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            text = "arguments of torchair.ops.wait() must be torch.Tensor"
            raise ValueError(text)  # noqa: TRY004 - as torchair does
    torch.ops.air.wait(list(tensors))


class _Event:
    """Known by its tag in every graph of the process."""

    def __init__(self, tag: str) -> None:
        self.tag = tag

    def __repr__(self) -> str:
        return f"<event {self.tag!r}>"


_events: dict[str, _Event] = {}


def npu_create_tagged_event(tag: str) -> _Event:
    """An event that graphs of the same process may share."""
    if tag in _events:
        raise ValueError(f"tagged event tag {tag} is already in use")
    return _events.setdefault(tag, _Event(tag))


def npu_tagged_event_record(event: _Event) -> None:
    """The event stands for all that the current stream has been given so far."""
    torch.ops.air.tagged_event_record(_tag_of(event))


def npu_tagged_event_wait(event: _Event) -> None:
    """The current stream goes on once the event has happened."""
    torch.ops.air.tagged_event_wait(_tag_of(event))


def _tag_of(event: _Event) -> str:
    if not isinstance(event, _Event) or _events.get(event.tag) is not event:
        raise ValueError(f"tagged event {event} is not in use")
    return event.tag


def npu_record_tagged_stream(input: torch.Tensor, tagged_stream: str) -> None:
    """`input` stays in memory until that stream has done its work, as every
    tensor does here."""
    torch.ops.air.record_tagged_stream(input, tagged_stream)
