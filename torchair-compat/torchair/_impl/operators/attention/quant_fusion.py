"""npu_quant_fusion_attention: attention of small floats with scales of blocks.

After the schema and tests of op-plugin."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import given_type
from .fusion import Work
from .fusion_masks import FOREVER, Sparse

_NAME = "npu_quant_fusion_attention"
_TYPES = ("float8_e4m3fn", "float8_e5m2", "hifloat8")
# The rows of query, key and value that share a scale.
_BLOCKS = {"q": 128, "k": 256, "v": 256}


@npu_operator
def npu_quant_fusion_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    *,
    d_scale_q: Tensor,
    d_scale_k: Tensor,
    d_scale_v: Tensor,
    p_scale: Tensor | None = None,
    scale: float = 1.0,
    query_dtype: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]:
    """softmax(scale query key^T) value of small floats, each block times its scale;
    computed in f32.

    query, key, value  float8_e4m3fn, float8_e5m2, or with query_dtype bytes of hifloat8
    input_layout  BNSD or BSND
    d_scale_q    f32 (b, heads, s / 128, 1), for 128 rows of query each
    d_scale_k, d_scale_v  f32 (b, heads, s / 256, 1), for 256 rows of key and of value
    p_scale      f32 (1,): has no effect, since probabilities stay f32

    Returns the result in the layout of query, float16; maxima and sums of the softmax
    (b, heads, s, 8) f32; an empty tensor; and three zeros, as there is no dropout.
    RuntimeError: another shape, dtype or layout.
    """
    check(
        input_layout in ("BNSD", "BSND"),
        _NAME,
        f"input_layout must be BNSD or BSND, got {input_layout!r}",
    )
    check_dtype(p_scale, _NAME, "p_scale", (torch.float32,))
    check_shape(p_scale, _NAME, "p_scale", (1,))
    scales = {"q": d_scale_q, "k": d_scale_k, "v": d_scale_v}
    wide = []
    for what, tensor in (("query", query), ("key", key), ("value", value)):
        kind = given_type(tensor, query_dtype, _NAME, what, _TYPES)
        text = f"{what} must have 4 dimensions, got {tensor.dim()}"
        check(tensor.dim() == 4, _NAME, text)
        short = what[0]
        factors = _rows(tensor, input_layout, scales[short], short)
        wide.append(kind.load(tensor) * factors)
    sparse = Sparse(None, 0, FOREVER, FOREVER, None, _NAME)
    states, keys, values = wide
    operands = states, keys, values, head_num, input_layout
    work = Work(*operands, None, scale, sparse, None)
    work.check("", 1.0)
    made, largest, total, rest, *zeros = work.result(None, 1.0, None, 0, 0)
    return made.to(torch.float16), largest, total, rest, *zeros


def _rows(tensor: Tensor, layout: str, scale: Tensor, what: str) -> Tensor:
    """The factor of each row, broadcast to the layout."""
    heads, rows = (1, 2) if layout == "BNSD" else (2, 1)
    batch, size, length = tensor.shape[0], _BLOCKS[what], tensor.shape[rows]
    argument = f"d_scale_{what}"
    check_dtype(scale, _NAME, argument, (torch.float32,))
    shape = (batch, tensor.shape[heads], -(-length // size), 1)
    check_shape(scale, _NAME, argument, shape)
    factors = scale.repeat_interleave(size, 2)[:, :, :length]
    return factors if layout == "BNSD" else factors.transpose(1, 2)
