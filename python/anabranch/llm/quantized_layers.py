"""Layers of a language model that keep their weight in 8 or 4 bits."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

from ..extension import dequantized


class QuantizedWeight(NamedTuple):
    """A weight [rows, columns] with the values `(integer - center) * scale + offset`.

    integers  int8 [rows, columns], or uint8 [rows, columns / 2] with even columns in
              the low nibbles and odd columns in the high ones
    scale     float32 or float16 [rows, groups], for groups of consecutive columns
    offset    the same; None: zero
    center    the integer that stands for zero before the offset is added
    """

    integers: torch.Tensor
    scale: torch.Tensor
    offset: torch.Tensor | None = None
    center: int = 0

    def dequantized(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The weight [rows, columns], computed in float32 and rounded to `dtype`."""
        return dequantized(self.integers, self.scale, self.offset, self.center, dtype)


class QuantizedLayer(nn.Module):
    """Holds a QuantizedWeight as the buffers `weight` (the integers), `scale` and
    `offset`. Layers with tied weights hold the same tensors."""

    def __init__(self, quantized: QuantizedWeight) -> None:
        super().__init__()
        self.register_buffer("weight", quantized.integers)
        self.register_buffer("scale", quantized.scale)
        self.register_buffer("offset", quantized.offset)
        self.center = quantized.center

    def quantized(self) -> QuantizedWeight:
        return QuantizedWeight(self.weight, self.scale, self.offset, self.center)

    def dequantized(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The weight [rows, columns], rounded to `dtype`."""
        return dequantized(self.weight, self.scale, self.offset, self.center, dtype)


class QuantizedLinear(QuantizedLayer):
    """y = x W' + b, with W rounded to the dtype of x. The rows of W are the outputs.

    bias  of the layer that this one replaces, or None

    PyTorch computes the weight at each call; Anabranch reads the integers.
    """

    def __init__(self, quantized: QuantizedWeight, bias: Any) -> None:
        super().__init__(quantized)
        self.bias = bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.dequantized(x.dtype), self.bias)


class QuantizedEmbedding(QuantizedLayer):
    """An embedding rounded to `dtype`. Only the rows that a call reads become floats."""

    def __init__(self, quantized: QuantizedWeight, dtype: torch.dtype) -> None:
        super().__init__(quantized)
        self.dtype = dtype

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        flat = tokens.reshape(-1)
        rows = QuantizedWeight(
            self.weight[flat],
            self.scale[flat],
            None if self.offset is None else self.offset[flat],
            self.center,
        )
        return rows.dequantized(self.dtype).view(*tokens.shape, -1)


def count(model: nn.Module) -> int:
    """How many linear layers of the model are quantised."""
    return sum(isinstance(module, QuantizedLinear) for module in model.modules())
