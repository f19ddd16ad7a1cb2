"""npu_fused_floyd_attention: attention of pairs of nodes by way of a third.

After Ascend's API reference of torch_npu, page of its name."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator

_NAME = "npu_fused_floyd_attention"
_COPIES = 8  # of each maximum and sum


@npu_operator
def npu_fused_floyd_attention(
    query_ik: Tensor,
    key_ij: Tensor,
    value_ij: Tensor,
    key_jk: Tensor,
    value_jk: Tensor,
    *,
    atten_mask: Tensor | None = None,
    scale_value: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """softmax(scale (q_im . k_ij + q_im . k_jm)) over j, times v_ij and v_jm; computed in
    f32.

    query_ik            (b, h, n, m, d) float16 or bfloat16
    key_ij, value_ij    (b, h, n, k, d)
    key_jk, value_jk    (b, h, k, m, d)
    atten_mask          (b, 1, n, 1, k) bool or uint8: true where nothing is read

    Returns maxima and sums of the softmax (b, h, n, m, 8) f32, and the result in the shape
    and dtype of query_ik. A row that reads nothing is 0. RuntimeError: another shape or
    dtype.
    """
    check_dtype(query_ik, _NAME, "query_ik", (torch.float16, torch.bfloat16))
    dims = query_ik.dim()
    check(dims == 5, _NAME, f"query_ik must have 5 dimensions, got {dims}")
    batch, heads, n, m, width = query_ik.shape
    k = key_ij.shape[-2]
    operands = {
        "key_ij": (key_ij, (batch, heads, n, k, width)),
        "value_ij": (value_ij, (batch, heads, n, k, width)),
        "key_jk": (key_jk, (batch, heads, k, m, width)),
        "value_jk": (value_jk, (batch, heads, k, m, width)),
    }
    for what, (tensor, shape) in operands.items():
        check_dtype(tensor, _NAME, what, (query_ik.dtype,))
        check_shape(tensor, _NAME, what, shape)
    check_dtype(atten_mask, _NAME, "atten_mask", (torch.bool, torch.uint8))
    check_shape(atten_mask, _NAME, "atten_mask", (batch, 1, n, 1, k))
    query, first, second, left, right = (
        tensor.to(torch.float32)
        for tensor in (query_ik, key_ij, key_jk, value_ij, value_jk)
    )
    # The second key is a matrix (k, d) for each m.
    turned = query.transpose(2, 3) @ second.permute(0, 1, 3, 4, 2)
    scores = (query @ first.transpose(-1, -2) + turned.transpose(2, 3)) * scale_value
    if atten_mask is not None:
        scores = scores.masked_fill(atten_mask != 0, -torch.inf)
    largest = scores.amax(-1, keepdim=True)
    base = torch.where(largest == -torch.inf, 0.0, largest)
    weights = (scores - base).exp()
    total = weights.sum(-1, keepdim=True)
    weights = weights / torch.where(total == 0, 1.0, total)
    turned = weights.transpose(2, 3) @ right.permute(0, 1, 3, 2, 4)
    made = weights @ left + turned.transpose(2, 3)
    shape = *largest.shape[:-1], _COPIES
    sums = largest.expand(shape).clone(), total.expand(shape).clone()
    return *sums, made.to(query_ik.dtype)
