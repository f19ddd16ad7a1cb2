"""Products of integers joined to what follows them: GELU, or the sum over a batch.

After Ascend's API reference of torch_npu: pages npu_quant_matmul_gelu and
npu_quant_matmul_reduce_sum."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..quantisation.integer_sums import integer_product, scale_sums
from .quant_matmul import unpack_operands

_F32 = (torch.float32,)
# The words of `approximate`, and PyTorch's.
_GELUS = {"gelu_erf": "none", "gelu_tanh": "tanh"}


def _check_depth(name: str, x1: Tensor, x2: Tensor) -> None:
    left, right = tuple(x1.shape), tuple(x2.shape)
    text = f"x1 of {left} and x2 of {right} don't fit"
    check(left[-1] == right[-2], name, text)


@npu_operator
def npu_quant_matmul_gelu(
    x1: Tensor,
    x2: Tensor,
    x1_scale: Tensor,
    x2_scale: Tensor,
    *,
    bias: Tensor | None = None,
    approximate: str | None = "gelu_erf",
) -> Tensor:
    """GELU of x1 @ x2 in exact int32, times x2_scale and x1_scale, plus bias; computed in
    f32.

    x1, x2       (..., m, k) and (..., k, n) of int8, or of int32 with eight int4 each
    x1_scale     (m,) float32
    x2_scale     (n,) or (1,): float32 or bfloat16
    bias         (n,), or (batch, 1, n) for int8: a float, for int8 only, or int32, which is
                 added before the scales
    approximate  "gelu_erf", or "gelu_tanh" by the approximation with tanh

    Returns (..., m, n) in bfloat16 if x2_scale or bias is, else float16. RuntimeError:
    another shape or dtype.
    """
    name = "npu_quant_matmul_gelu"
    kind = _GELUS.get(approximate or "gelu_erf")
    text = f"approximate must be one of {tuple(_GELUS)}, got {approximate!r}"
    check(kind is not None, name, text)
    assert kind is not None
    check_dtype(x1, name, "x1", (torch.int8, torch.int32))
    check_dtype(x2, name, "x2", (x1.dtype,))
    packed = x1.dtype == torch.int32
    for what, operand in (("x1", x1), ("x2", x2)):
        text = f"{what} must have 2 to 6 dimensions, got {operand.dim()}"
        check(2 <= operand.dim() <= 6, name, text)
    left, right = unpack_operands(x1, x2) if packed else (x1, x2)
    _check_depth(name, left, right)
    width = right.shape[-1]
    check_dtype(x1_scale, name, "x1_scale", _F32)
    check_shape(x1_scale, name, "x1_scale", (left.shape[-2],))
    check_dtype(x2_scale, name, "x2_scale", (torch.float32, torch.bfloat16))
    check_shape(x2_scale, name, "x2_scale", (1,), (width,))
    total = integer_product(left, right)
    batches = [] if packed or total.dim() != 3 else [(total.shape[0], 1, width)]
    check_dtype(bias, name, "bias", (torch.int32, *(() if packed else FLOATS)))
    check_shape(bias, name, "bias", (width,), *batches)
    if bias is not None and bias.dtype == torch.int32:
        total = total + bias
    values = scale_sums(total, x2_scale, x1_scale, bias)
    wide = torch.bfloat16 in (x2_scale.dtype, None if bias is None else bias.dtype)
    made = functional.gelu(values, approximate=kind)
    return made.to(torch.bfloat16 if wide else torch.float16)


@npu_operator
def npu_quant_matmul_reduce_sum(
    x1: Tensor,
    x2: Tensor,
    *,
    x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None,
) -> Tensor:
    """The sum over a batch of x1 @ x2 in exact int32, times x1_scale and x2_scale; computed
    in f32.

    x1, x2    (batch, m, k) and (batch, k, n) of int8; x2 also in FRACTAL_NZ
    x1_scale  (batch, m) float32, and x2_scale (n,) bfloat16; both are needed

    Returns (m, n) in bfloat16. RuntimeError: another shape or dtype.
    """
    name = "npu_quant_matmul_reduce_sum"
    for what, operand in (("x1", x1), ("x2", x2)):
        check_dtype(operand, name, what, (torch.int8,))
        text = f"{what} must have 3 dimensions, got {operand.dim()}"
        check(operand.dim() == 3, name, text)
    _check_depth(name, x1, x2)
    text = f"x1 has a batch of {x1.shape[0]}, x2 of {x2.shape[0]}"
    check(x1.shape[0] == x2.shape[0], name, text)
    check(x1_scale is not None, name, "x1_scale is needed")
    check(x2_scale is not None, name, "x2_scale is needed")
    assert x1_scale is not None and x2_scale is not None
    check_dtype(x1_scale, name, "x1_scale", _F32)
    check_shape(x1_scale, name, "x1_scale", tuple(x1.shape[:2]))
    check_dtype(x2_scale, name, "x2_scale", (torch.bfloat16,))
    check_shape(x2_scale, name, "x2_scale", (x2.shape[2],))
    values = scale_sums(integer_product(x1, x2), x2_scale, x1_scale, None)
    return values.sum(0).to(torch.bfloat16)
