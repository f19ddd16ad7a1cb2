"""torch_npu.testing.common_utils: marks of tests, and random tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

__all__ = ["SupportedDevices", "create_common_tensor"]


def SupportedDevices(devices: Sequence[str]) -> Callable[[Any], Any]:
    """A decorator that names the processors of a test. Each test runs here."""
    return lambda function: function


def create_common_tensor(
    item: Sequence[Any], low: float, high: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor of evenly drawn numbers from `low` to `high`, and the same on the device.

    item  (a NumPy dtype, a format, a shape)
    """
    dtype, _, shape = item
    drawn = numpy.random.default_rng().uniform(low, high, shape).astype(dtype)
    tensor = torch.from_numpy(drawn)
    return tensor, tensor.npu()  # type: ignore[attr-defined]
