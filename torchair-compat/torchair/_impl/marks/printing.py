"""npu_print: prints text with tensors in it when a graph runs."""

from __future__ import annotations

import itertools

import torch

__all__ = ["check", "placeholder", "print_now", "text_of"]

_PLAIN = (str, bool, float, int)


def check(args: tuple[object, ...], summarize_size: object, detail: object) -> None:
    """TypeError, ValueError: npu_print does not take these arguments."""
    for position, value in enumerate(args):
        if not isinstance(value, (torch.Tensor, *_PLAIN)):
            raise TypeError(
                "position arguments of npu_print() must be torch.Tensor or basic type"
                " in (str, bool, float, int), but got"
                f" '{type(value).__name__}' at position {position}"
            )
    if not any(isinstance(value, torch.Tensor) for value in args):
        raise ValueError("npu_print() requires at least one tensor input")
    if isinstance(summarize_size, bool) or not isinstance(summarize_size, int):
        raise TypeError(
            f"summarize_size must be int, got {type(summarize_size).__name__}"
        )
    if summarize_size < -1 or summarize_size == 0:
        raise ValueError(
            "summarize_size must be positive or -1 for all elements, got"
            f" {summarize_size}"
        )
    if not isinstance(detail, bool):
        raise TypeError(f"tensor_detail must be bool, got {type(detail).__name__}")


def placeholder(text: str) -> str:
    """A mark for a tensor, which does not occur in the text."""
    mark, number = "{}", 0
    while mark in text:
        mark = f"{{{number}}}"
        number += 1
    return mark


def print_now(
    tensors: list[torch.Tensor],
    msg_format: str,
    placeholder: str,
    summarize_size: int,
    tensor_detail: bool,
) -> None:
    """The kernel of torch.ops.air.print."""
    texts = [text_of(tensor, summarize_size, tensor_detail) for tensor in tensors]
    parts = msg_format.split(placeholder)
    line = "".join(itertools.chain(*itertools.zip_longest(parts, texts, fillvalue="")))
    print(line, flush=True)


def text_of(tensor: torch.Tensor, most: int, detail: bool) -> str:
    """The first and last `most` elements along each dimension as text; -1: all
    elements."""
    value = tensor.detach()
    if value.is_floating_point():
        # Floats of one and two bytes are printed by their exact value.
        value = value if value.dtype == torch.float64 else value.to(torch.float32)
    text = _array(value, most)
    if not detail:
        return text
    return f"tensor({text}, shape={list(tensor.shape)}, dtype={tensor.dtype})"


def _array(value: torch.Tensor, most: int) -> str:
    if value.dim() == 0:
        return _number(value.item())
    size = value.shape[0]
    if value.numel() == 0:
        return "[]"
    if most == -1 or size <= 2 * most:
        texts = [_array(row, most) for row in value]
    else:
        first = [_array(row, most) for row in value[:most]]
        last = [_array(row, most) for row in value[-most:]]
        texts = [*first, "...", *last]
    return f"[{(' ' if value.dim() == 1 else chr(10) + ' ').join(texts)}]"


def _number(value: bool | complex) -> str:
    if isinstance(value, bool | int):
        return str(int(value))
    return f"{value:.9g}"
