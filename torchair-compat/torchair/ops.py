"""Events, which are points in the order of a stream, and text that a graph prints."""

from __future__ import annotations

from collections.abc import Sequence as _Sequence
from typing import Any as _Any

import torch as _torch

from ._impl.marks import operators as _air  # noqa: F401 - _air defines torch.ops.air
from ._impl.marks import printing as _printing

__all__ = [
    "npu_create_tagged_event",
    "npu_fused_infer_attention_score",
    "npu_fused_infer_attention_score_v2",
    "npu_print",
    "npu_record_tagged_stream",
    "npu_tagged_event_record",
    "npu_tagged_event_wait",
    "record",
    "wait",
]


def record() -> _torch.Tensor:
    """An event: all that the current stream has been given so far. For `wait`."""
    return _torch.ops.air.record()


def wait(tensors: _Sequence[_torch.Tensor]) -> None:
    """What the current stream is given next begins after `tensors` have been
    computed; an event of `record` stands for what came before it."""
    if not tensors:
        raise ValueError("torchair.ops.wait() requires at least one tensor input")
    for tensor in tensors:
        if not isinstance(tensor, _torch.Tensor):
            text = "arguments of torchair.ops.wait() must be torch.Tensor"
            raise ValueError(text)  # noqa: TRY004 - as torchair does
    _torch.ops.air.wait(list(tensors))


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
    _torch.ops.air.tagged_event_record(_tag_of(event))


def npu_tagged_event_wait(event: _Event) -> None:
    """The current stream goes on once the event has happened."""
    _torch.ops.air.tagged_event_wait(_tag_of(event))


def _tag_of(event: _Event) -> str:
    if not isinstance(event, _Event) or _events.get(event.tag) is not event:
        raise ValueError(f"tagged event {event} is not in use")
    return event.tag


def npu_record_tagged_stream(input: _torch.Tensor, tagged_stream: str) -> None:
    """`input` stays in memory until that stream has done its work, as every
    tensor does here."""
    _torch.ops.air.record_tagged_stream(input, tagged_stream)


def npu_print(
    *args: _torch.Tensor | str | float | bool,
    summarize_size: int = 3,
    tensor_detail: bool = False,
) -> None:
    """Prints its arguments with blanks between, in a graph each time that it runs,
    in the order of the program. Of each dimension the first and last
    `summarize_size` elements; -1: all."""
    _printing.check(args, summarize_size, tensor_detail)
    words = [None if isinstance(a, _torch.Tensor) else str(a) for a in args]
    mark = _printing.placeholder(" ".join([w for w in words if w is not None]))
    _torch.ops.air.print(
        [a for a in args if isinstance(a, _torch.Tensor)],
        " ".join([mark if w is None else w for w in words]),
        mark,
        summarize_size,
        tensor_detail,
    )


def npu_fused_infer_attention_score(
    query: _torch.Tensor, key: _torch.Tensor, value: _torch.Tensor, **options: _Any
) -> tuple[_torch.Tensor, _torch.Tensor]:
    """torch_npu's, lengths being tensors, so that other lengths need no other graph.
    NotImplementedError outside of graphs."""
    _for_graphs("npu_fused_infer_attention_score")
    operator = _torch.ops.npu._fused_infer_attention_of_tensors
    return operator(query, key, value, **options)


def npu_fused_infer_attention_score_v2(
    query: _torch.Tensor, key: _torch.Tensor, value: _torch.Tensor, **options: _Any
) -> tuple[_torch.Tensor, _torch.Tensor]:
    """The same of version two."""
    _for_graphs("npu_fused_infer_attention_score_v2")
    operator = _torch.ops.npu._fused_infer_attention_v2_of_tensors
    return operator(query, key, value, **options)


def _for_graphs(name: str) -> None:
    if not _torch.compiler.is_compiling():
        raise NotImplementedError(
            f"torchair.ops.{name} is for graphs; eagerly use torch_npu.{name}"
        )
