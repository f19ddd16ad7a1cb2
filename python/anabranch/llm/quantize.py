"""Linear layers of a language model with weights of 8 or 4 bits."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

KINDS = ("int8", "int4")
GROUP = 32  # of int4
REFITS = 4


class QuantizedLinear(nn.Module):
    """y = x W' + b with W = integer * scale + offset, rounded to the dtype of x.

    weight  int8 [out, in] of "int8"; uint8 [out, in / 2] of "int4", whose low
            nibbles are the even columns and whose high ones are the odd ones
    scale   float32 [out, groups], one group for the whole row of "int8"
    offset  the same for "int4", else None
    bias    as of the layer that it stands for, or None

    PyTorch computes the weight at each call; Anabranch reads the integers."""

    def __init__(
        self,
        weight: torch.Tensor,
        scale: torch.Tensor,
        offset: torch.Tensor | None,
        bias: torch.Tensor | None,
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("offset", offset)
        self.bias = bias

    def dequantized(self) -> torch.Tensor:
        """The weight, float32 [out, in]."""
        whole = self.weight
        if whole.dtype == torch.uint8:
            whole = torch.stack([whole & 15, whole >> 4], -1).flatten(1)
        rows, groups = self.scale.shape
        values = whole.view(rows, groups, -1).float() * self.scale.unsqueeze(-1)
        if self.offset is not None:
            values = values + self.offset.unsqueeze(-1)
        return values.view(rows, -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.dequantized().to(x.dtype), self.bias)


def quantized(model: Any, kind: str) -> Any:
    """The model with quantised linear layers; it shares everything else with
    `model`, which stays as it is. Layers that "int4" has no groups for and the one
    that gives the logits have "int8"."""
    find_head = getattr(model, "get_output_embeddings", lambda: None)
    return _replaced(model, kind, find_head(), {})


def _replaced(module: nn.Module, kind: str, head: Any, known: dict[Any, Any]) -> Any:
    if module in known:
        return known[module]
    weight = _weight_of(module)
    if weight is not None:
        four = kind == "int4" and module is not head and weight.shape[1] % GROUP == 0
        bits = _four_bits(weight) if four else _eight_bits(weight)
        whole, scale, offset = bits
        bias: Any = module.bias
        found: Any = QuantizedLinear(whole, scale, offset, bias).eval()
    else:
        found = copy.copy(module)
        found._modules = {
            name: child if child is None else _replaced(child, kind, head, known)
            for name, child in module._modules.items()
        }
    known[module] = found
    return found


def _weight_of(module: nn.Module) -> torch.Tensor | None:
    """[out, in] of a linear layer, else None."""
    if type(module) is nn.Linear:
        return module.weight.detach()
    if type(module).__name__ == "Conv1D" and hasattr(module, "nf"):  # GPT-2's
        return module.weight.detach().t()
    return None


def _eight_bits(
    weight: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Round to nearest, then the scale of each row that fits best."""
    rows = weight.double()
    largest = rows.abs().amax(1, keepdim=True)
    whole = (rows * _inverse(largest / 127)).round().clamp(-127, 127)
    scale = (rows * whole).sum(1, keepdim=True) * _inverse(
        whole.square().sum(1, keepdim=True)
    )
    return whole.to(torch.int8), scale.float(), None


def _four_bits(
    weight: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Round to nearest between the smallest and the largest of a group, then the
    line through integers and weights that fits best, and so again while it gains."""
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
    return packed, scale.squeeze(-1).float(), offset.squeeze(-1).float()


def _inverse(values: torch.Tensor) -> torch.Tensor:
    return torch.where(values == 0, 0, 1 / values)


def _rounded(
    groups: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor
) -> torch.Tensor:
    return ((groups - offset) * _inverse(scale)).round().clamp(0, 15)


def _line(
    groups: torch.Tensor, whole: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Slope and value at zero of the least squares' line of weights over integers."""
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
