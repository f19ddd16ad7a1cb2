"""npu_moe_distribute_combine_add_rms_norm: the results of experts, a residual and a norm.

After Ascend's API reference of torch_npu, page of its name."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator_of
from .dispatch_v2 import npu_moe_distribute_combine_v2

_NAME = "npu_moe_distribute_combine_add_rms_norm"
# Arguments for other processors, and what callers may give.
_RESERVED: dict[str, int | None] = {
    "activation_scale": None,
    "weight_scale": None,
    "group_list": None,
    "out_dtype": 0,
    "group_list_type": 0,
}


@npu_operator_of(
    "(Tensor expand_x, Tensor expert_ids, Tensor expand_idx, Tensor ep_send_counts, Tensor"
    " expert_scales, Tensor residual_x, Tensor gamma, str group_ep, int ep_world_size, int"
    " ep_rank_id, int moe_expert_num, *, Tensor? tp_send_counts=None, Tensor?"
    " x_active_mask=None, Tensor? activation_scale=None, Tensor? weight_scale=None, Tensor?"
    " group_list=None, Tensor? expand_scales=None, Tensor? shared_expert_x=None, Tensor?"
    " elastic_info=None, Tensor? ori_x=None, Tensor? const_expert_alpha_1=None, Tensor?"
    ' const_expert_alpha_2=None, Tensor? const_expert_v=None, str group_tp="", int'
    " tp_world_size=0, int tp_rank_id=0, int expert_shard_type=0, int shared_expert_num=1,"
    " int shared_expert_rank_num=0, int global_bs=0, int out_dtype=0, int"
    ' comm_quant_mode=0, int group_list_type=0, str comm_alg="", float norm_eps=1e-06, int'
    " zero_expert_num=0, int copy_expert_num=0, int const_expert_num=0) -> (Tensor, Tensor,"
    " Tensor)"
)
def npu_moe_distribute_combine_add_rms_norm(
    expand_x: Tensor,
    expert_ids: Tensor,
    expand_idx: Tensor,
    ep_send_counts: Tensor,
    expert_scales: Tensor,
    residual_x: Tensor,
    gamma: Tensor,
    group_ep: str,
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    *,
    norm_eps: float = 1e-6,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """npu_moe_distribute_combine_v2 plus residual_x, and the RMS norm of the sum.

    expand_idx  the assist_info_for_combine of that operator
    residual_x  (bs, 1, h) in expand_x's dtype
    gamma       (h,), also in it

    The other arguments are those of npu_moe_distribute_combine_v2. Returns the norm, the
    reciprocal root of the mean square (bs, 1, 1) f32, and the sum, both in the shape of
    residual_x. RuntimeError: another shape, dtype, mode or rank.
    """
    for what, wanted in _RESERVED.items():
        given = options.pop(what, wanted)
        same = given is None if wanted is None else given == wanted
        check(same, _NAME, f"{what} must be {wanted}: it is for other processors")
    check_dtype(residual_x, _NAME, "residual_x", (expand_x.dtype,))
    check_dtype(gamma, _NAME, "gamma", (expand_x.dtype,))
    rows, width = expert_ids.shape[0], expand_x.shape[-1]
    check_shape(residual_x, _NAME, "residual_x", (rows, 1, width))
    check_shape(gamma, _NAME, "gamma", (width,))
    made = npu_moe_distribute_combine_v2(
        expand_x,
        expert_ids,
        expand_idx,
        ep_send_counts,
        expert_scales,
        group_ep,
        ep_world_size,
        ep_rank_id,
        moe_expert_num,
        **options,
    )
    summed = made.to(torch.float32).unsqueeze(1) + residual_x.to(torch.float32)
    total = summed.to(expand_x.dtype)
    wide = total.to(torch.float32)
    root = torch.rsqrt(wide.square().mean(-1, keepdim=True) + norm_eps)
    normed = (wide * root * gamma.to(torch.float32)).to(expand_x.dtype)
    return normed, root, total
