"""Quantises the linear layers of a language model to 8 or 4 bits."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from .quantized_layers import QuantizedLinear, QuantizedWeight

KINDS = ("int8", "int4")
GROUP = 32  # columns of a group of int4
GROUP_OF_BYTES = 64  # columns of a group of int8, if the row is a multiple of it
REFITS = 4
# Elements that are fitted at once: each pass reads all of them, so they have to fit
# into the CPU's caches.
AT_ONCE = 1 << 17


def quantized(model: Any, kind: str) -> Any:
    """The model with quantised linear layers. It shares everything else with `model`,
    which is not changed. With "int4", the layer of the logits gets "int8", and so do
    layers whose rows are no multiple of a group."""
    find_head = getattr(model, "get_output_embeddings", lambda: None)
    return _replaced(model, kind, find_head(), {})


def _replaced(module: nn.Module, kind: str, head: Any, known: dict[Any, Any]) -> Any:
    if module in known:
        return known[module]
    weight = _weight_of(module)
    if weight is not None:
        four = kind == "int4" and module is not head and weight.shape[1] % GROUP == 0
        fitted = _four_bits(weight) if four else _eight_bits(weight)
        found: Any = QuantizedLinear(fitted, module.bias).eval()
    else:
        found = copy.copy(module)
        found._modules = {
            name: child if child is None else _replaced(child, kind, head, known)
            for name, child in module._modules.items()
        }
    known[module] = found
    return found


def _weight_of(module: nn.Module) -> torch.Tensor | None:
    """The weight [out, in] of a linear layer; None for any other module."""
    if type(module) is nn.Linear:
        return module.weight.detach()
    # a linear layer of GPT-2
    if type(module).__name__ == "Conv1D" and hasattr(module, "nf"):
        return module.weight.detach().t()
    return None


def _eight_bits(weight: torch.Tensor) -> QuantizedWeight:
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
    return QuantizedWeight(integers, _stored(scale.squeeze(-1)))


def _four_bits(weight: torch.Tensor) -> QuantizedWeight:
    rows = max(1, AT_ONCE // weight.shape[1])
    parts = [_fitted_line(part) for part in weight.split(rows)]
    integers, scale, offset = (torch.cat(values) for values in zip(*parts))
    return QuantizedWeight(integers, _stored(scale), _stored(offset))


def _fitted_line(
    weight: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rounds to nearest between the smallest and the largest weight of a group. Then it
    fits the line through integers and weights, rounds again, and repeats while the
    error shrinks."""
    groups = weight.double().view(weight.shape[0], -1, GROUP)
    offset = groups.amin(-1, keepdim=True)
    scale = (groups.amax(-1, keepdim=True) - offset) / 15
    best = _rounded(groups, scale, offset)
    error = _error(groups, best, scale, offset)
    for _ in range(REFITS):
        slope, base = _line(groups, _rounded(groups, scale, offset))
        whole = _rounded(groups, slope, base)
        slope, base = _line(groups, whole)
        new = _error(groups, whole, slope, base)
        better = new < error
        best = torch.where(better, whole, best)
        scale = torch.where(better, slope, scale)
        offset = torch.where(better, base, offset)
        error = torch.where(better, new, error)
    whole = best.to(torch.uint8).flatten(1)
    packed = whole[:, ::2] | whole[:, 1::2] << 4
    return packed, scale.squeeze(-1), offset.squeeze(-1)


def _stored(values: torch.Tensor) -> torch.Tensor:
    """Scales or offsets as float16, whose rounding adds little to that of the
    integers. Float32 if the largest one is no normal number of float16."""
    limits = torch.finfo(torch.float16)
    largest = values.abs().max() if values.numel() else 0
    fits = largest == 0 or limits.smallest_normal <= largest <= limits.max
    return values.to(torch.float16 if fits else torch.float32)


def _inverse(values: torch.Tensor) -> torch.Tensor:
    return torch.where(values == 0, 0, 1 / values)


def _rounded(
    groups: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor
) -> torch.Tensor:
    return ((groups - offset) * _inverse(scale)).round().clamp(0, 15)


def _line(
    groups: torch.Tensor, whole: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Slope and value at zero of the least squares line of weights over integers."""
    x, y = whole.mean(-1, keepdim=True), groups.mean(-1, keepdim=True)
    covariance = ((whole - x) * (groups - y)).sum(-1, keepdim=True)
    slope = covariance * _inverse((whole - x).square().sum(-1, keepdim=True))
    return slope, y - slope * x


def _error(
    groups: torch.Tensor,
    whole: torch.Tensor,
    scale: torch.Tensor,
    offset: torch.Tensor,
) -> torch.Tensor:
    return (whole * scale + offset - groups).square().sum(-1, keepdim=True)
