"""Sends tokens to the ranks of their experts, and returns the results.

After Ascend's API reference of torch_npu: pages npu_moe_distribute_dispatch and
npu_moe_distribute_combine."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..schema import Reserved
from .transport import (
    check_dispatched,
    check_reserved,
    checked_ranks,
    return_rows,
    send_rows,
)


def _check_one_shared(name: str, shared_expert_num: int) -> None:
    text = f"shared_expert_num must be one of (1,), got {shared_expert_num}"
    check(shared_expert_num == 1, name, text)


@npu_operator
def npu_moe_distribute_dispatch(
    x: Tensor,
    expert_ids: Tensor,
    group_ep: str,
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    *,
    scales: Tensor | None = None,
    x_active_mask: Tensor | None = None,
    expert_scales: Tensor | None = None,
    group_tp: str = "",
    tp_world_size: int = 0,
    tp_rank_id: int = 0,
    expert_shard_type: int = 0,
    shared_expert_num: int = 1,
    shared_expert_rank_num: int = 0,
    quant_mode: int = 0,
    global_bs: int = 0,
    expert_token_nums_type: int = 1,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Sends each row to the ranks of its experts.

    x           (bs, h)
    expert_ids  (bs, k) int32, from 0 to moe_expert_num
    scales      (experts, h) f32, those of shared experts first, for `quant_mode` 2
    expert_scales  (bs, k) f32
    shared_expert_rank_num  the first ranks that have a shared expert, which gets every
                row; the other ranks have the experts in equal parts
    global_bs   the most rows of a rank times ep_world_size; 0: all ranks have the same
                number

    Returns seven tensors about the rows that this rank receives, of which there are at
    most `a`:

    1. the rows, (a, h), of its first expert first, then zeros. With `quant_mode` 2 they
       are int8, after multiplication by the scales of their expert
    2. with `quant_mode` 2 the scale of each row, (a,) f32, else empty
    3. (bs * k,) int32, for npu_moe_distribute_combine
    4. int64: the rows of each expert here (`expert_token_nums_type` 1), or the end of
       its rows (0)
    5. (experts here * ep_world_size,) int32, for npu_moe_distribute_combine
    6. empty
    7. `expert_scales` of the rows, (a,), else empty

    RuntimeError: another shape, dtype, mode or rank.
    """
    name = "npu_moe_distribute_dispatch"
    check(x_active_mask is None, name, "x_active_mask must be None")
    check_reserved(name, tp_world_size, expert_shard_type)
    _check_one_shared(name, shared_expert_num)
    check(quant_mode in (0, 2), name, f"quant_mode must be 0 or 2, got {quant_mode}")
    known = expert_token_nums_type in (0, 1)
    check(known, name, f"no such expert_token_nums_type: {expert_token_nums_type}")
    check_dtype(x, name, "x")
    check(x.dim() == 2, name, f"x must have 2 dimensions, got {x.dim()}")
    ranks = checked_ranks(
        name,
        expert_ids,
        group_ep,
        ep_world_size,
        ep_rank_id,
        moe_expert_num,
        shared_expert_rank_num,
        shared_expert_num,
        global_bs,
    )
    check_dispatched(name, x, expert_ids, expert_scales, scales, quant_mode, ranks)
    sent = send_rows(
        ranks,
        ranks.owners(expert_ids),
        x,
        expert_ids,
        scales,
        expert_scales,
        quant_mode,
    )
    own = sent.numbers[:, : ranks.choices].reshape(-1)
    return sent.results(own.to(torch.int32), expert_token_nums_type)


@npu_operator
def npu_moe_distribute_combine(
    expand_x: Tensor,
    expert_ids: Tensor,
    expand_idx: Tensor,
    ep_send_counts: Tensor,
    expert_scales: Tensor,
    group_ep: str,
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    *,
    tp_send_counts: Tensor | None = None,
    x_active_mask: Tensor | None = None,
    activation_scale: Tensor | None = None,
    weight_scale: Tensor | None = None,
    group_list: Tensor | None = None,
    expand_scales: Tensor | None = None,
    shared_expert_x: Tensor | None = None,
    group_tp: str = "",
    tp_world_size: int = 0,
    tp_rank_id: int = 0,
    expert_shard_type: int = 0,
    shared_expert_num: int = 1,
    shared_expert_rank_num: int = 0,
    global_bs: int = 0,
    out_dtype: Reserved[int] = 0,
    comm_quant_mode: int = 0,
    group_list_type: Reserved[int] = 0,
) -> Tensor:
    """The sum over k of expert_scales times the row that each expert made, plus the
    shared expert's row: (bs, h) in the dtype of expand_x, computed in f32.

    expand_x        (a, h): the experts' results, in the order of
                    npu_moe_distribute_dispatch
    expert_scales   (bs, k) f32
    expand_idx, ep_send_counts  the third and the fifth result of
                                npu_moe_distribute_dispatch
    comm_quant_mode  2: rows travel as int8, each with a scale in f32

    The other numbers must be those of npu_moe_distribute_dispatch. RuntimeError:
    another shape, dtype, mode or rank.
    """
    name = "npu_moe_distribute_combine"
    known = comm_quant_mode in (0, 2)
    check(known, name, f"comm_quant_mode must be 0 or 2, got {comm_quant_mode}")
    for what, given in (
        ("x_active_mask", x_active_mask),
        ("activation_scale", activation_scale),
        ("weight_scale", weight_scale),
        ("group_list", group_list),
        ("shared_expert_x", shared_expert_x),
    ):
        check(given is None, name, f"{what} must be None")
    check_reserved(name, tp_world_size, expert_shard_type)
    _check_one_shared(name, shared_expert_num)
    check_dtype(expand_x, name, "expand_x")
    ranks = checked_ranks(
        name,
        expert_ids,
        group_ep,
        ep_world_size,
        ep_rank_id,
        moe_expert_num,
        shared_expert_rank_num,
        shared_expert_num,
        global_bs,
    )
    tokens, choices = expert_ids.shape
    check_shape(expand_x, name, "expand_x", (ranks.rows, expand_x.shape[-1]))
    check_shape(expand_idx, name, "expand_idx", (tokens * choices,))
    check_shape(expert_scales, name, "expert_scales", (tokens, choices))
    shape = (ranks.here * ranks.world,)
    check_shape(ep_send_counts, name, "ep_send_counts", shape)
    owners = ranks.owners(expert_ids)
    made = return_rows(ranks, owners, expand_x, ep_send_counts, comm_quant_mode)
    weights = expert_scales.to(torch.float32).unsqueeze(-1)
    result = (made[:, :choices] * weights).sum(1) + made[:, choices:].sum(1)
    return result.to(expand_x.dtype)
