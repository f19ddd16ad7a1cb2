"""Finds frozen int8 or uint8 tensors whose integers fit into four bits.

The compiler packs such a weight into half of its bytes. The description tells the
range, since the compiler sees no values. The code that packs the weight checks it
again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

RANGES = {torch.int8: ((-8, 7), (0, 15)), torch.uint8: ((0, 15),)}
LEAST_ELEMENTS = 256  # smaller tensors are not worth the check


def small_range(value: torch.Tensor) -> dict[str, Any]:
    """{"range": [low, high]} of a matrix whose integers fit into four bits, else {}."""
    ranges = RANGES.get(value.dtype, ())
    if not ranges or value.dim() < 2 or value.numel() < LEAST_ELEMENTS:
        return {}
    low, high = (int(end) for end in value.detach().aminmax())
    for least, most in ranges:
        if least <= low and high <= most:
            return {"range": [least, most]}
    return {}


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
