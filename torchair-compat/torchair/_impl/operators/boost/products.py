"""A product that is added to an f32 matrix."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import atb_operator
from ..schema import Written


@atb_operator
def _npu_matmul_add_fp32(x: Tensor, weight: Tensor, C: Written) -> None:
    """C += x^T weight, computed in f32.

    x       (k, m) f16 or bf16
    weight  (k, n), in x's dtype
    C       (m, n) f32

    RuntimeError: another shape or dtype.
    """
    name = "_npu_matmul_add_fp32"
    check_dtype(x, name, "x", (torch.float16, torch.bfloat16))
    check_dtype(weight, name, "weight", (x.dtype,))
    check_dtype(C, name, "C", (torch.float32,))
    check(x.dim() == 2 and weight.dim() == 2, name, "x and weight must be matrices")
    check_shape(weight, name, "weight", (x.shape[0], weight.shape[1]))
    check_shape(C, name, "C", (x.shape[1], weight.shape[1]))
    C.add_(x.to(torch.float32).t() @ weight.to(torch.float32))
