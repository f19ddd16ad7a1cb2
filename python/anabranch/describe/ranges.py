"""Which frozen tensors of bytes hold integers of four bits only.

Such a weight is packed in half of its bytes. The description says so, since the
compiler sees no values; code that packs them checks it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

RANGES = {torch.int8: ((-8, 7), (0, 15)), torch.uint8: ((0, 15),)}
LEAST_ELEMENTS = 256  # fewer are not worth a look


def small_range(value: torch.Tensor) -> dict[str, Any]:
    """{"range": [low, high]} of a matrix of four bits, else {}."""
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
    """The description of a graph for these values of its constants."""
    inputs = []
    for entry in graph["inputs"]:
        kept = {key: value for key, value in entry.items() if key != "range"}
        value = constants.get(entry.get("constant", ""))
        inputs.append(kept | (small_range(value) if value is not None else {}))
    return graph | {"inputs": inputs}
