"""torch_npu.testing.testcase: the base of tests."""

from __future__ import annotations

from typing import Any

import numpy
import torch
from torch.testing._internal.common_utils import TestCase as _TestCase
from torch.testing._internal.common_utils import run_tests

__all__ = ["TestCase", "run_tests"]


class TestCase(_TestCase):
    """PyTorch's test case, with a comparison by tolerances."""

    def assertRtolEqual(
        self, x: Any, y: Any, prec: float = 1e-4, prec16: float = 1e-3
    ) -> None:
        """AssertionError: tensors, arrays, or lists of them differ by more than `prec`,
        or `prec16` for f16 and bf16: relative, and absolute."""
        if isinstance(x, list | tuple):
            self.assertEqual(len(x), len(y))
            for one, other in zip(x, y):
                self.assertRtolEqual(one, other, prec, prec16)
            return
        tensors = [_tensor(value) for value in (x, y)]
        narrow = any(t.dtype in (torch.float16, torch.bfloat16) for t in tensors)
        near = prec16 if narrow else prec
        wide = [t.detach().to(torch.float64) for t in tensors]
        torch.testing.assert_close(*wide, rtol=near, atol=near, equal_nan=True)


def _tensor(value: Any) -> torch.Tensor:
    """A tensor of a value. PyTorch takes no array that goes backwards."""
    if isinstance(value, numpy.ndarray):
        value = value.copy()
    return torch.as_tensor(value)
