"""Chooses the experts of rows, and orders rows by expert.

After Ascend's API reference of torch_npu: pages npu_moe_gating_top_k and
npu_moe_compute_expert_tokens; and MindSpore's pages moe_token_permute and
moe_token_unpermute, which describe the same operators."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..schema import Reserved


@npu_operator
def npu_moe_gating_top_k(
    x: Tensor,
    k: int,
    *,
    bias: Tensor | None = None,
    k_group: int = 1,
    group_count: int = 1,
    group_select_mode: int = 0,
    renorm: int = 0,
    norm_type: int = 0,
    out_flag: bool = False,
    routed_scaling_factor: float = 1.0,
    eps: float = 1e-20,
    input_ids: Reserved[Tensor | None] = None,
    tid2eid: Reserved[Tensor | None] = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The k best experts of each row.

    x          (rows, experts) float
    norm_type  the experts are ranked by softmax(x) (0) or sigmoid(x) (1), plus `bias`
               (experts,)
    k_group, group_count  only experts of the best k_group of group_count groups are
                          chosen
    group_select_mode  a group's rank is its largest value (0), or the sum of its two
                       largest (1)

    Returns the values of these experts without bias, (rows, k) in x's dtype, for
    sigmoid divided by their sum + eps, times routed_scaling_factor; the experts (rows,
    k) int32; and with `out_flag` the norm (rows, experts) f32, else empty.
    RuntimeError: another shape, dtype or mode.
    """
    name = "npu_moe_gating_top_k"
    check_dtype(x, name, "x")
    check(x.dim() == 2, name, f"x must have 2 dimensions, got {x.dim()}")
    count = x.shape[1]
    check_dtype(bias, name, "bias")
    check_shape(bias, name, "bias", (count,))
    check(norm_type in (0, 1), name, f"no such norm_type: {norm_type}")
    check(renorm == 0, name, f"renorm must be 0, got {renorm}")
    check(
        group_select_mode in (0, 1),
        name,
        f"no such group_select_mode: {group_select_mode}",
    )
    fits = 0 < k_group <= group_count and count % group_count == 0
    text = f"k_group {k_group} of group_count {group_count} for {count} experts"
    check(fits, name, text)
    most = count // group_count * k_group
    check(1 <= k <= most, name, f"k must be from 1 to {most}, got {k}")
    wide = x.to(torch.float32)
    norm = torch.sigmoid(wide) if norm_type else torch.softmax(wide, -1)
    ranked = norm if bias is None else norm + bias.to(torch.float32)
    if k_group < group_count:
        ranked = _in_best_groups(ranked, k_group, group_count, group_select_mode)
    experts = ranked.topk(k, -1).indices
    values = norm.gather(-1, experts)
    if norm_type:
        values = values / (values.sum(-1, keepdim=True) + eps)
    values = (values * routed_scaling_factor).to(x.dtype)
    return values, experts.to(torch.int32), norm if out_flag else norm.new_empty(0)


def _in_best_groups(ranked: Tensor, k_group: int, groups: int, mode: int) -> Tensor:
    """The ranks, with minus infinity in groups that are not among the best."""
    parts = ranked.unflatten(-1, (groups, -1))
    best = parts.topk(min(2, parts.shape[-1]), -1).values if mode else parts
    rank = best.sum(-1) if mode else best.amax(-1)
    chosen = torch.zeros_like(rank).scatter(-1, rank.topk(k_group, -1).indices, 1.0)
    out = chosen.unsqueeze(-1) == 0
    return parts.masked_fill(out, -torch.inf).flatten(-2)


@npu_operator
def npu_moe_compute_expert_tokens(
    sorted_expert_for_source_row: Tensor, num_expert: int
) -> Tensor:
    """The end of each expert's rows.

    sorted_expert_for_source_row  (rows,) int32
    num_expert                    how many experts there are

    Returns (num_expert,) int32. RuntimeError: another shape or dtype.
    """
    name = "npu_moe_compute_expert_tokens"
    check_dtype(
        sorted_expert_for_source_row,
        name,
        "sorted_expert_for_source_row",
        (torch.int32,),
    )
    check(
        sorted_expert_for_source_row.dim() == 1,
        name,
        "sorted_expert_for_source_row must have 1 dimension",
    )
    check(num_expert > 0, name, f"num_expert must be positive, got {num_expert}")
    numbers = torch.arange(
        num_expert, dtype=torch.int32, device=sorted_expert_for_source_row.device
    )
    found = torch.searchsorted(
        sorted_expert_for_source_row.contiguous(), numbers, right=True
    )
    return found.to(torch.int32)


@npu_operator
def npu_moe_token_permute(
    tokens: Tensor,
    indices: Tensor,
    num_out_tokens: int | None = None,
    padded_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """The rows of tokens in the order of experts, one for each choice.

    tokens   (rows, h)
    indices  (rows,) or (rows, k): the experts
    num_out_tokens  how many rows are returned; None and 0: all; a negative number: all
                    but the last

    Returns these rows; and for each choice i * k + j its place there, (rows * k,)
    int32. RuntimeError: another shape, dtype or mode.
    """
    name = "npu_moe_token_permute"
    check_dtype(tokens, name, "tokens")
    check_dtype(indices, name, "indices", INTEGERS)
    check(not padded_mode, name, "padded_mode must be False")
    right = indices.dim() in (1, 2) and indices.shape[0] == tokens.shape[0]
    text = "tokens must have 2 dimensions, and indices a row for each token"
    check(tokens.dim() == 2 and right, name, text)
    k = indices.shape[1] if indices.dim() == 2 else 1
    order = torch.sort(indices.reshape(-1), stable=True).indices
    places = torch.empty_like(order, dtype=torch.int32)
    numbers = torch.arange(order.shape[0], dtype=torch.int32, device=tokens.device)
    places = places.scatter(0, order, numbers)
    kept = order[:num_out_tokens] if num_out_tokens else order
    return tokens[kept // k], places


@npu_operator
def npu_moe_token_unpermute(
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    probs: Tensor | None = None,
    padded_mode: bool = False,
    restore_shape: list[int] | None = None,
) -> Tensor:
    """Brings the rows of npu_moe_token_permute back to their old order.

    Each row of the result (rows, h) is the sum over k of probs[i, k] times the row at
    sorted_indices[i * k + j], computed in f32. Rows that were left out count as zeros.
    RuntimeError: another shape, dtype or mode.
    """
    name = "npu_moe_token_unpermute"
    check_dtype(permuted_tokens, name, "permuted_tokens")
    check_dtype(sorted_indices, name, "sorted_indices", INTEGERS)
    check(not padded_mode, name, "padded_mode must be False")
    total = sorted_indices.numel()
    k = 1 if probs is None else probs.shape[-1]
    text = f"sorted_indices has {total} places, which are no rows of {k} of probs"
    check(total % k == 0, name, text)
    check_shape(probs, name, "probs", (total // k, k))
    places = sorted_indices.reshape(-1).to(torch.int64)
    kept = permuted_tokens.shape[0]
    rows = permuted_tokens.to(torch.float32)[places.clamp(max=max(kept - 1, 0))]
    rows = torch.where((places < kept).unsqueeze(-1), rows, 0.0).unflatten(0, (-1, k))
    if probs is not None:
        rows = rows * probs.to(torch.float32).unsqueeze(-1)
    return rows.sum(1).to(permuted_tokens.dtype)
