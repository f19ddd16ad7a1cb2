"""npu_fused_matmul: a product, and one operator of its result.

After the reference of Ascend's kernels, page aclnnFusedMatmul."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator

_KINDS = ("", "16cast32", "relu", "add", "mul", "gelu_erf", "gelu_tanh")


@npu_operator
def npu_fused_matmul(
    x1: Tensor,
    x2: Tensor,
    *,
    bias: Tensor | None = None,
    x3: Tensor | None = None,
    fused_op_type: str = "",
) -> Tensor:
    """x1 @ x2 plus bias, rounded to x1's dtype, and then one operator of it. Both are
    computed in f32, and give the bits of two single operators.

    x1, x2  (..., m, k) and (..., k, n) floats of one dtype; their batches broadcast
    bias    (n,), of this dtype or f32
    x3      for add and mul: the other operand, with the result's dtype and shape
    fused_op_type  "", relu, add, mul, gelu_erf, gelu_tanh; 16cast32 returns the f32 sums,
            which are not rounded

    RuntimeError: another shape, dtype or operator.
    """
    name = "npu_fused_matmul"
    known = fused_op_type in _KINDS
    text = f"fused_op_type must be one of {_KINDS}, got {fused_op_type!r}"
    check(known, name, text)
    check_dtype(x1, name, "x1", FLOATS)
    check_dtype(x2, name, "x2", (x1.dtype,))
    for what, operand in (("x1", x1), ("x2", x2)):
        deep = operand.dim() >= 2
        check(deep, name, f"{what} must have 2 or more dimensions: {operand.dim()}")
    fits = x1.shape[-1] == x2.shape[-2]
    text = f"x1 of {tuple(x1.shape)} and x2 of {tuple(x2.shape)} don't fit"
    check(fits, name, text)
    check_dtype(bias, name, "bias", tuple({x1.dtype, torch.float32}))
    check_shape(bias, name, "bias", (x2.shape[-1],), (1, x2.shape[-1]))
    made = torch.matmul(x1.to(torch.float32), x2.to(torch.float32))
    made = made if bias is None else made + bias.to(torch.float32)
    if fused_op_type != "16cast32":
        made = made.to(x1.dtype).to(torch.float32)
    needs = fused_op_type in ("add", "mul")
    text = f"{fused_op_type!r} {'needs' if needs else 'takes no'} x3"
    check(needs == (x3 is not None), name, text)
    if x3 is not None:
        check_dtype(x3, name, "x3", (x1.dtype,))
        check_shape(x3, name, "x3", tuple(made.shape))
        other = x3.to(torch.float32)
        made = made + other if fused_op_type == "add" else made * other
    elif fused_op_type == "relu":
        made = made.relu()
    elif fused_op_type.startswith("gelu"):
        way = "none" if fused_op_type == "gelu_erf" else "tanh"
        made = functional.gelu(made, approximate=way)
    return made if fused_op_type == "16cast32" else made.to(x1.dtype)
