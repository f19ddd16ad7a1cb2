"""npu_moe_re_routing: from the order of ranks to the order of experts.

After Ascend's API reference of torch_npu, page npu_moe_re_routing."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import FLOATS, INTEGERS, check, check_dtype, check_shape, reads_values
from ..definition import npu_operator
from ..element_types import given_type
from ..products.small_products import SMALL_TYPES, is_small
from ..quantisation.rows import group_of_rows


@npu_operator
def npu_moe_re_routing(
    tokens: Tensor,
    expert_token_num_per_rank: Tensor,
    *,
    per_token_scales: Tensor | None = None,
    expert_token_num_type: int = 1,
    idx_type: int = 0,
    tokens_dtype: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Orders rows, which come rank by rank and within a rank expert by expert, by expert
    and within an expert by rank.

    tokens            (a, h): floats or int8; float8_e4m3fn, float8_e5m2, or with
                      `tokens_dtype` bytes of hifloat8 or float4
    expert_token_num_per_rank  (ranks, experts) int32 or int64: the rows of each; a is
                      their sum
    per_token_scales  (a,) f32, which are ordered as the rows

    Returns the rows; their scales, else an empty tensor; for each place the row that it
    had, (a,) int32; and the number of rows of each expert. RuntimeError: another shape,
    dtype or mode.
    """
    name, counts = "npu_moe_re_routing", expert_token_num_per_rank
    for what, value, known in (
        ("expert_token_num_type", expert_token_num_type, 1),
        ("idx_type", idx_type, 0),
    ):
        check(value == known, name, f"{what} must be {known}, got {value}")
    small = is_small(tokens, tokens_dtype)
    if small:
        given_type(tokens, tokens_dtype, name, "tokens", SMALL_TYPES)
    else:
        check_dtype(tokens, name, "tokens", (*FLOATS, torch.int8))
    check(tokens.dim() == 2, name, f"tokens must have 2 dimensions, got {tokens.dim()}")
    check_dtype(counts, name, "expert_token_num_per_rank", INTEGERS)
    text = "expert_token_num_per_rank must have 2 dimensions"
    check(counts.dim() == 2, name, f"{text}, got {counts.dim()}")
    rows = tokens.shape[0]
    check_dtype(per_token_scales, name, "per_token_scales", (torch.float32,))
    check_shape(per_token_scales, name, "per_token_scales", (rows,))
    if reads_values(counts):
        total = int(counts.sum())
        text = f"expert_token_num_per_rank counts {total} rows, tokens has {rows}"
        check(total == rows, name, text)
    places = _rows_by_expert(counts, rows)
    scales = torch.empty(0, dtype=torch.float32, device=tokens.device)
    if per_token_scales is not None:
        scales = per_token_scales[places]
    sizes = counts.sum(0, dtype=counts.dtype)
    # PyTorch orders no rows of floats of eight bits.
    moved = tokens.view(torch.uint8) if small else tokens
    ordered = moved[places].view(tokens.dtype)
    return ordered, scales, places.to(torch.int32), sizes


def _rows_by_expert(counts: Tensor, rows: int) -> Tensor:
    """For each place in the order of experts its row in the order of ranks, int64."""
    ranks = counts.shape[0]
    sizes = counts.to(torch.int64)
    firsts = sizes.reshape(-1).cumsum(0).reshape(sizes.shape) - sizes
    # From here on each expert has its ranks one after the other.
    ends = sizes.t().reshape(-1).cumsum(0)
    begins = ends - sizes.t().reshape(-1)
    numbers = torch.arange(rows, device=counts.device)
    part = group_of_rows(ends, rows).clamp(max=sizes.numel() - 1)
    first = firsts[part % ranks, part // ranks]
    return (first + numbers - begins[part]).clamp(0, max(rows - 1, 0))
