"""Finds ranges of frozen integers for the compiler, which sees no values.

Tensors of bytes whose integers fit into four bits are packed into half of their bytes.
The code that packs them checks the range again. Tensors of integers that are all one
number, as zero points mostly are, count as that number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

RANGES = {torch.int8: ((-8, 7), (0, 15)), torch.uint8: ((0, 15),)}
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
LEAST_ELEMENTS = 256  # smaller tensors are not worth the check


def small_range(value: torch.Tensor) -> dict[str, Any]:
    """{"range": [low, high]} of a matrix whose integers fit into four bits, and of
    integers that are one number; else {}."""
    if (number := _only_number(value)) is not None:
        return {"range": [number, number]}
    ranges = RANGES.get(value.dtype, ())
    if not ranges or value.dim() < 2 or value.numel() < LEAST_ELEMENTS:
        return {}
    low, high = (int(end) for end in value.detach().aminmax())
    for least, most in ranges:
        if least <= low and high <= most:
            return {"range": [least, most]}
    return {}


def _only_number(value: torch.Tensor) -> int | None:
    """The number that each element of a tensor of integers is."""
    if value.dtype not in INTEGERS or not value.numel():
        return None
    first, last = value.detach().flatten()[[0, -1]]
    # Weights are large, and their ends mostly differ.
    return int(first) if first == last and bool((value == first).all()) else None


def with_ranges(
    graph: dict[str, Any], constants: Mapping[str, torch.Tensor]
) -> dict[str, Any]:
    """The description of a graph with the ranges of these constants."""
    inputs = []
    for entry in graph["inputs"]:
        kept = {key: value for key, value in entry.items() if key != "range"}
        value = constants.get(entry.get("constant", ""))
        inputs.append(kept | (small_range(value) if value is not None else {}))
    return graph | {"inputs": inputs}
