"""Compares the sizes and strides of a graph's arguments with those of the trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch


class Mismatch(AssertionError):
    """The graph was not compiled for this argument."""


def check_sizes(inputs: Sequence[Mapping[str, Any]], arguments: Sequence[Any]) -> None:
    """Mismatch: a tensor does not have the sizes and strides of the trace, with the
    symbols' values put in. Empty tensors are not checked."""
    symbols = {
        entry["expr"]: arguments[entry["argument"]]
        for entry in inputs
        if isinstance(entry.get("expr"), str)
    }
    for entry in inputs:
        value = arguments[entry["argument"]]
        if "shape" not in entry or not isinstance(value, torch.Tensor):
            continue
        for size in entry["shape"]:
            if isinstance(size, str):
                at = entry["shape"].index(size)
                symbols.setdefault(size, value.shape[at] if at < value.dim() else -1)
        if value.numel():
            check_tensor(entry, value, symbols)


def other_size(inputs: Sequence[Mapping[str, Any]], arguments: Sequence[Any]) -> str:
    """The first tensor whose size is not that of the trace, as a text; empty if all fit.
    Symbolic sizes are not compared."""
    for entry in inputs:
        value = arguments[entry["argument"]]
        if "shape" not in entry or not isinstance(value, torch.Tensor):
            continue
        wanted = [s if isinstance(s, int) else None for s in entry["shape"]]
        if len(wanted) != value.dim() or any(
            size is not None and size != found
            for size, found in zip(wanted, value.shape)
        ):
            return f"{entry['name']} has the shape {[*value.shape]}"
    return ""


def check_tensor(
    entry: Mapping[str, Any], value: torch.Tensor, symbols: Mapping[str, int]
) -> None:
    name = entry["name"]
    if len(entry["shape"]) != value.dim():
        raise Mismatch(
            f"{name}: wrong number of dimensions {len(entry['shape'])}"
            f" for expected {value.dim()}"
        )
    rows = zip(entry["shape"], entry["strides"], value.shape, value.stride())
    for dim, (size, stride, has_size, has_stride) in enumerate(rows):
        wants_size = evaluate(size, symbols)
        wants_stride = evaluate(stride, symbols)
        # The stride of a dimension of one element means nothing.
        if has_size != wants_size or (has_size > 1 and has_stride != wants_stride):
            raise Mismatch(
                f"{name}: expected size {has_size}=={wants_size}, "
                f"stride {has_stride}=={wants_stride} at dim={dim}"
            )


def evaluate(expr: Any, symbols: Mapping[str, int]) -> int:
    """The value of an EXPR of the graph description."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, str):
        return symbols[expr]
    kind, left, right = expr[0], *(evaluate(part, symbols) for part in expr[1:])
    return {
        "add": lambda: left + right,
        "mul": lambda: left * right,
        "sub": lambda: left - right,
        "floordiv": lambda: left // right,
        "ceildiv": lambda: -(-left // right),
        "mod": lambda: left % right,
        "min": lambda: min(left, right),
        "max": lambda: max(left, right),
        "pow": lambda: left**right,
    }[kind]()
