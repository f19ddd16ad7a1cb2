"""torch_npu.testing.testcase: the base of tests."""

from __future__ import annotations

from typing import Any

import numpy
import torch
from torch.testing._internal.common_utils import TestCase as _TestCase
from torch.testing._internal.common_utils import run_tests

__all__ = ["TestCase", "run_tests"]


_PRECISION = 1e-5


class TestCase(_TestCase):
    """PyTorch's test case, with the comparisons of torch_npu's."""

    def assertEqual(
        self,
        x: Any,
        y: Any,
        prec: float | str | None = None,
        message: str = "",
        allow_inf: bool = False,
        exact_dtype: bool = False,
        **more: Any,
    ) -> None:
        """AssertionError: numbers, tensors, or collections of them differ by more than
        `prec`, 1e-5 by default. Dtypes may differ unless `exact_dtype`. A text in the place
        of `prec` is the message. `more` is what PyTorch's assertEqual takes."""
        near = _PRECISION
        if isinstance(prec, str):
            message = prec
        elif prec is not None:
            near = prec
        if message:
            more.setdefault("msg", message)
        more = {"atol": near, "rtol": 0, "exact_dtype": exact_dtype, **more}
        super().assertEqual(_wide(x), _wide(y), **more)

    def assertRtolEqual(
        self,
        x: Any,
        y: Any,
        prec: float = 1e-4,
        prec16: float = 1e-3,
        auto_trans_dtype: bool = False,
        message: str | None = None,
    ) -> None:
        """AssertionError: tensors, arrays, or lists of them differ. `prec`, or `prec16` for
        f16 and bf16, is the part of the elements that may differ by more than it, relative
        or absolute. NaN must be at the same places. `auto_trans_dtype` has no effect: dtypes
        may differ."""
        if isinstance(x, list | tuple):
            super().assertEqual(len(x), len(y))
            for one, other in zip(x, y):
                self.assertRtolEqual(
                    one, other, prec, prec16, auto_trans_dtype, message
                )
            return
        tensors = [_tensor(value) for value in (x, y)]
        narrow = any(t.dtype in (torch.float16, torch.bfloat16) for t in tensors)
        near = prec16 if narrow else prec
        one, other = (t.detach().to(torch.float64) for t in tensors)
        if one.shape != other.shape:
            self.fail(f"shapes differ: {tuple(one.shape)} and {tuple(other.shape)}")
        if not torch.equal(one.isnan(), other.isnan()):
            self.fail(message or "NaN are at other places")
        off = torch.where((one == other) | one.isnan(), 0.0, (one - other).abs())
        # An infinity that the other has not differs by more than anything.
        size = torch.maximum(one.abs(), other.abs()).nan_to_num(0.0, 1.0)
        beyond = [int((part > near).sum()) for part in (off, off / (size + 1e-9))]
        if min(beyond) > near * one.numel():
            worst = float(off.max())
            said = f"{min(beyond)} of {one.numel()} elements differ by more than {near}"
            self.fail(f"{message or 'result error'}: {said}, at most by {worst}")


def _wide(value: Any) -> Any:
    """Floats of eight bits as f32: PyTorch compares them by their bits alone."""
    small = isinstance(value, torch.Tensor) and value.dtype.itemsize == 1
    return value.float() if small and value.is_floating_point() else value


def _tensor(value: Any) -> torch.Tensor:
    """A tensor of a value. PyTorch takes no array that goes backwards."""
    if isinstance(value, numpy.ndarray):
        value = value.copy()
    return torch.as_tensor(value)
