"""torchair.ops: events, which order streams, and text that a graph prints."""

from __future__ import annotations

from collections.abc import Sequence as _Sequence
from typing import Any as _Any

import torch as _torch

from anabranch.extension import is_traced as _is_traced

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
    """Records an event for `wait`: it happens when all operators that the current
    stream has so far have ended. Returns it as a tensor."""
    return _torch.ops.air.record()


def wait(tensors: _Sequence[_torch.Tensor]) -> None:
    """Makes later operators of the current stream begin after `tensors` have been
    computed.

    An event of `record` stands for the operators before it. ValueError: there is no
    tensor, or an argument is none.
    """
    if not tensors:
        raise ValueError("torchair.ops.wait() requires at least one tensor input")
    for tensor in tensors:
        if not isinstance(tensor, _torch.Tensor):
            text = "arguments of torchair.ops.wait() must be torch.Tensor"
            raise ValueError(text)  # noqa: TRY004 - as torchair does
    _torch.ops.air.wait(list(tensors))


class _Event:
    """An event that all graphs of the process know by its tag."""

    def __init__(self, tag: str) -> None:
        self.tag = tag

    def __repr__(self) -> str:
        return f"<event {self.tag!r}>"


_events: dict[str, _Event] = {}


def npu_create_tagged_event(tag: str) -> _Event:
    """Makes an event that graphs of the process may share. ValueError: the tag is in
    use."""
    if tag in _events:
        raise ValueError(f"tagged event tag {tag} is already in use")
    return _events.setdefault(tag, _Event(tag))


def npu_tagged_event_record(event: _Event) -> None:
    """Records the event: it happens when all operators that the current stream has so
    far have ended. ValueError: npu_create_tagged_event did not make the event."""
    _torch.ops.air.tagged_event_record(_tag_of(event))


def npu_tagged_event_wait(event: _Event) -> None:
    """Makes later operators of the current stream wait for the event. ValueError:
    npu_create_tagged_event did not make the event."""
    _torch.ops.air.tagged_event_wait(_tag_of(event))


def _tag_of(event: _Event) -> str:
    if not isinstance(event, _Event) or _events.get(event.tag) is not event:
        raise ValueError(f"tagged event {event} is not in use")
    return event.tag


def npu_record_tagged_stream(input: _torch.Tensor, tagged_stream: str) -> None:
    """Keeps `input` in memory until that stream has done its work. Every tensor is kept
    so on this host, so this changes nothing."""
    _torch.ops.air.record_tagged_stream(input, tagged_stream)


def npu_print(
    *args: _torch.Tensor | str | float | bool,
    summarize_size: int = 3,
    tensor_detail: bool = False,
) -> None:
    """Prints its arguments, separated by blanks. In a graph it prints each time that
    the graph runs, in the order of the program.

    args            tensors, and values of type str, bool, float or int; at least one
                    tensor
    summarize_size  how many elements are printed at either end of each dimension; -1:
                    all
    tensor_detail   also prints shape and dtype

    TypeError, ValueError: a wrong argument.
    """
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
    """torch_npu's operator with lengths of sequences as tensors, so that new lengths
    need no new graph.

    query, key, value  as torch_npu.npu_fused_infer_attention_score takes them
    options            its other arguments; lengths are int64 tensors

    Returns the attention and its log-sum-exp, as that operator does.
    NotImplementedError: called outside a compiled function.
    """
    _for_graphs("npu_fused_infer_attention_score")
    operator = _torch.ops.npu.npu_fused_infer_attention_score
    return operator(query, key, value, **options)


def npu_fused_infer_attention_score_v2(
    query: _torch.Tensor, key: _torch.Tensor, value: _torch.Tensor, **options: _Any
) -> tuple[_torch.Tensor, _torch.Tensor]:
    """The same of version two."""
    _for_graphs("npu_fused_infer_attention_score_v2")
    operator = _torch.ops.npu.npu_fused_infer_attention_score_v2
    return operator(query, key, value, **options)


def _for_graphs(name: str) -> None:
    if not _is_traced():
        raise NotImplementedError(
            f"torchair.ops.{name} is for graphs; eagerly use torch_npu.{name}"
        )
