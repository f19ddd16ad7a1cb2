"""Fits a weight of floats: its integers, and scales and offsets of groups of columns."""

from __future__ import annotations

import torch

from ..quantized_layers import QuantizedWeight
from .error_feedback import Columns, rounded_in_turn
from .group_lines import LEVELS, fitted, rounded

GROUP = 32  # columns of a group of 4 bits
GROUP_OF_BYTES = 64  # columns of a group of 8 bits, if the row is a multiple of it
# Elements that are fitted at once: each pass reads all of them, so they have to fit
# into the CPU's caches.
AT_ONCE = 1 << 17


def eight_bits(weight: torch.Tensor) -> QuantizedWeight:
    """Rounds to nearest, then takes the scale of each group that fits best."""
    rows, columns = weight.shape
    group = columns if columns % GROUP_OF_BYTES else GROUP_OF_BYTES
    groups = weight.double().view(rows, -1, group)
    largest = groups.abs().amax(-1, keepdim=True)
    whole = (groups * _inverse(largest / 127)).round().clamp(-127, 127)
    scale = (groups * whole).sum(-1, keepdim=True) * _inverse(
        whole.square().sum(-1, keepdim=True)
    )
    integers = whole.to(torch.int8).view(rows, columns)
    stored = scale.squeeze(-1)
    return QuantizedWeight(integers, stored.to(_dtype(stored.abs().max())))


def four_bits(
    weight: torch.Tensor, importance: torch.Tensor | None = None
) -> QuantizedWeight:
    """Rounds each weight to nearest on the line of its group.

    importance  float32 [columns]: what a squared error counts. None: all the same
    """
    if importance is None:
        importance = torch.ones(weight.shape[1])
    size, dtype = _size(weight), _dtype(weight.abs().max() / LEVELS)
    counted = importance.view(-1, GROUP)
    parts = []
    for part in weight.split(max(1, AT_ONCE // weight.shape[1])):
        groups = (part.float() / size).reshape(len(part), -1, GROUP)
        line = [(value * size).to(dtype) for value in fitted(groups, counted)]
        scale, offset = (value.float() / size for value in line)
        whole = rounded(groups, scale, offset).flatten(1)
        parts.append((whole.to(torch.uint8), *(value.squeeze(-1) for value in line)))
    return _packed(*(torch.cat(found) for found in zip(*parts)))


def four_bits_in_turn(weight: torch.Tensor, columns: Columns) -> QuantizedWeight:
    """Rounds column by column. Later columns make up for the errors of earlier ones."""
    dtype = _dtype(weight.abs().max() / LEVELS)
    return _packed(*rounded_in_turn(weight.float(), columns, GROUP, dtype))


def errors_of_four_bits(weight: torch.Tensor, importance: torch.Tensor) -> torch.Tensor:
    """About what rounding to 4 bits adds to the squared result of each row: float32
    [rows]. Weights that are on a line of 16 steps already add nothing."""
    groups = weight.float().reshape(len(weight), -1, GROUP)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    step = (high - low) / LEVELS
    whole = ((groups - low) * _inverse(step)).round_()
    lost = (whole * step + low - groups).square_()
    return (lost * importance.view(-1, GROUP)).sum((1, 2))


def _packed(
    integers: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor
) -> QuantizedWeight:
    return QuantizedWeight(integers[:, ::2] | integers[:, 1::2] << 4, scale, offset)


def _size(weight: torch.Tensor) -> float:
    """A power of two near the largest weight: squares of the weights over it are normal
    numbers."""
    largest = float(weight.abs().max())
    return 2.0 ** torch.tensor(largest).log2().floor().item() if largest > 0 else 1.0


def _dtype(scale: torch.Tensor) -> torch.dtype:
    """Of scales and offsets, for the largest scale. float16, whose rounding adds little
    to that of the integers; float32 if it has no such normal numbers, or none for an
    offset of 32 scales."""
    limits = torch.finfo(torch.float16)
    largest = float(scale)
    fits = largest == 0 or limits.smallest_normal <= largest <= limits.max / 32
    return torch.float16 if fits else torch.float32


def _inverse(values: torch.Tensor) -> torch.Tensor:
    return torch.where(values == 0, 0, 1 / values)
