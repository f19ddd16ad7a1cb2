"""Sends tokens to the ranks of their experts and returns the results, with tokens that rest
and with experts that compute nothing.

After Ascend's API reference of torch_npu: pages npu_moe_distribute_dispatch_v2 and
npu_moe_distribute_combine_v2."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..schema import Reserved
from .transport import (
    DYNAMIC,
    check_dispatched,
    check_reserved,
    checked_ranks,
    return_rows,
    send_rows,
)

_INFO = 128  # elements of assist_info_for_combine for each row
_ALGORITHMS = ("", "fullmesh", "fullmesh_v1", "fullmesh_v2", "hierarchy")


class _Special(NamedTuple):
    """How many experts of each kind follow the others. None is on a rank."""

    zeros: int
    copies: int
    constants: int

    def check(self, name: str) -> None:
        for what, number in zip(("zero", "copy", "const"), self):
            text = f"{what}_expert_num must not be negative, got {number}"
            check(number >= 0, name, text)


def _active(name: str, mask: Tensor | None, expert_ids: Tensor) -> Tensor | None:
    """Which choices are made, (tokens, k). None: all of them."""
    if mask is None:
        return None
    check_dtype(mask, name, "x_active_mask", (torch.bool,))
    shape = tuple(expert_ids.shape)
    check_shape(mask, name, "x_active_mask", shape[:1], shape)
    return mask.unsqueeze(1).expand(shape) if mask.dim() == 1 else mask


def _check_algorithm(name: str, comm_alg: str, performance_info: Tensor | None) -> None:
    known = comm_alg in _ALGORITHMS
    check(known, name, f"comm_alg must be one of {_ALGORITHMS}, got {comm_alg!r}")
    text = "performance_info must be None: this host does not measure single ranks"
    check(performance_info is None, name, text)


@npu_operator
def npu_moe_distribute_dispatch_v2(
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
    elastic_info: Reserved[Tensor | None] = None,
    performance_info: Tensor | None = None,
    group_tp: str = "",
    tp_world_size: int = 0,
    tp_rank_id: int = 0,
    expert_shard_type: int = 0,
    shared_expert_num: int = 1,
    shared_expert_rank_num: int = 0,
    quant_mode: int = 0,
    global_bs: int = 0,
    expert_token_nums_type: int = 1,
    comm_alg: str = "",
    zero_expert_num: int = 0,
    copy_expert_num: int = 0,
    const_expert_num: int = 0,
    y_dtype: Reserved[int | None] = None,
    x_dtype: Reserved[int | None] = None,
    scales_dtype: Reserved[int | None] = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """npu_moe_distribute_dispatch with more kinds of tokens and experts.

    x             (bs, h) float, or int32 of eight int4 each, which travel as they are
    scales        as there; of int32 (bs,) f32, which travel with the rows
    x_active_mask  bool: (bs,), false where a token goes nowhere, or (bs, k), false where
                  a choice does; a token without any choice does not go to shared experts
    shared_expert_num  shared experts, each on as many of the first
                  shared_expert_rank_num ranks
    zero_expert_num, copy_expert_num, const_expert_num  experts after moe_expert_num, in
                  this order; their tokens stay where they are
    comm_alg      has no effect on this host

    The results are those of npu_moe_distribute_dispatch, but the third is (a * 128,)
    int32 and has nothing to say: npu_moe_distribute_combine_v2 needs its shape only.
    RuntimeError: another shape, dtype, mode or rank.
    """
    name = "npu_moe_distribute_dispatch_v2"
    _check_algorithm(name, comm_alg, performance_info)
    check_reserved(name, tp_world_size, expert_shard_type)
    packed = x.dtype == torch.int32
    known = quant_mode in ((0,) if packed else (0, DYNAMIC))
    text = f"quant_mode must be 0{'' if packed else ' or 2'} for x of {x.dtype}"
    check(known, name, f"{text}, got {quant_mode}")
    known = expert_token_nums_type in (0, 1)
    check(known, name, f"no such expert_token_nums_type: {expert_token_nums_type}")
    check(x.dim() == 2, name, f"x must have 2 dimensions, got {x.dim()}")
    special = _Special(zero_expert_num, copy_expert_num, const_expert_num)
    special.check(name)
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
        sum(special),
    )
    if packed:
        text = "x of int32 needs scales, one for each row"
        check(scales is not None, name, text)
        check_dtype(scales, name, "scales", (torch.float32,))
        check_shape(scales, name, "scales", (x.shape[0],))
        check_shape(expert_scales, name, "expert_scales", tuple(expert_ids.shape))
    else:
        check_dispatched(name, x, expert_ids, expert_scales, scales, quant_mode, ranks)
    active = _active(name, x_active_mask, expert_ids)
    sent = send_rows(
        ranks,
        ranks.owners(expert_ids, active),
        x,
        expert_ids,
        scales,
        expert_scales,
        quant_mode,
    )
    nothing = x.new_zeros(ranks.rows * _INFO, dtype=torch.int32)
    return sent.results(nothing, expert_token_nums_type)


@npu_operator
def npu_moe_distribute_combine_v2(
    expand_x: Tensor,
    expert_ids: Tensor,
    assist_info_for_combine: Tensor,
    ep_send_counts: Tensor,
    expert_scales: Tensor,
    group_ep: str,
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    *,
    tp_send_counts: Tensor | None = None,
    x_active_mask: Tensor | None = None,
    expand_scales: Tensor | None = None,
    shared_expert_x: Tensor | None = None,
    elastic_info: Reserved[Tensor | None] = None,
    ori_x: Tensor | None = None,
    const_expert_alpha_1: Tensor | None = None,
    const_expert_alpha_2: Tensor | None = None,
    const_expert_v: Tensor | None = None,
    performance_info: Tensor | None = None,
    group_tp: str = "",
    tp_world_size: int = 0,
    tp_rank_id: int = 0,
    expert_shard_type: int = 0,
    shared_expert_num: int = 1,
    shared_expert_rank_num: int = 0,
    global_bs: int = 0,
    comm_quant_mode: int = 0,
    comm_alg: str = "",
    zero_expert_num: int = 0,
    copy_expert_num: int = 0,
    const_expert_num: int = 0,
) -> Tensor:
    """npu_moe_distribute_combine with more kinds of tokens and experts.

    x_active_mask    as in npu_moe_distribute_dispatch_v2; a token without any choice
                     becomes zeros
    shared_expert_x  (bs, h), or (a, b, h) with a * b = bs, in expand_x's dtype: added to
                     the result
    ori_x            (bs, h) in expand_x's dtype: the tokens, which copy experts return.
                     Zero experts return zeros, and constant experts alpha_1 * ori_x +
                     alpha_2 * v
    const_expert_alpha_1, const_expert_alpha_2, const_expert_v  (const_expert_num, h) in
                     expand_x's dtype

    The other arguments must be those of npu_moe_distribute_dispatch_v2. The sum is (bs,
    h) in expand_x's dtype, computed in f32. RuntimeError: another shape, dtype, mode or
    rank.
    """
    name = "npu_moe_distribute_combine_v2"
    _check_algorithm(name, comm_alg, performance_info)
    known = comm_quant_mode in (0, DYNAMIC)
    check(known, name, f"comm_quant_mode must be 0 or 2, got {comm_quant_mode}")
    check_reserved(name, tp_world_size, expert_shard_type)
    check_dtype(expand_x, name, "expand_x", FLOATS)
    check(expand_x.dim() == 2, name, "expand_x must have 2 dimensions")
    special = _Special(zero_expert_num, copy_expert_num, const_expert_num)
    special.check(name)
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
        sum(special),
    )
    tokens, choices = expert_ids.shape
    width = expand_x.shape[1]
    for what, tensor, shape in (
        ("expand_x", expand_x, (ranks.rows, width)),
        ("assist_info_for_combine", assist_info_for_combine, (ranks.rows * _INFO,)),
        ("expert_scales", expert_scales, (tokens, choices)),
        ("ep_send_counts", ep_send_counts, (ranks.here * ranks.world,)),
    ):
        check_shape(tensor, name, what, shape)
    check_dtype(expert_scales, name, "expert_scales", (torch.float32,))
    alphas = const_expert_alpha_1, const_expert_alpha_2, const_expert_v
    _check_special(name, special, expand_x, tokens, ori_x, *alphas)
    active = _active(name, x_active_mask, expert_ids)
    owners = ranks.owners(expert_ids, active)
    made = return_rows(ranks, owners, expand_x, ep_send_counts, comm_quant_mode)
    experts = made[:, :choices]
    if special.copies or special.constants:
        assert ori_x is not None
        kept = _of_special(special, expert_ids - moe_expert_num, ori_x, *alphas)
        experts = experts + kept
    weights = (
        expert_scales if active is None else torch.where(active, expert_scales, 0.0)
    )
    result = (experts * weights.unsqueeze(-1)).sum(1) + made[:, choices:].sum(1)
    if shared_expert_x is not None:
        flat = _shared(name, shared_expert_x, expand_x, tokens)
        result = result + flat.to(torch.float32)
    if active is not None:
        result = torch.where(active.any(1, keepdim=True), result, 0.0)
    return result.to(expand_x.dtype)


def _check_special(
    name: str,
    special: _Special,
    expand_x: Tensor,
    tokens: int,
    ori_x: Tensor | None,
    *constants: Tensor | None,
) -> None:
    """RuntimeError: special experts lack an operand, or it does not fit expand_x."""
    width, kind = expand_x.shape[1], (expand_x.dtype,)
    needed = special.copies or special.constants
    text = "copy_expert_num and const_expert_num need ori_x"
    check(not needed or ori_x is not None, name, text)
    check_dtype(ori_x, name, "ori_x", kind)
    check_shape(ori_x, name, "ori_x", (tokens, width))
    names = ("const_expert_alpha_1", "const_expert_alpha_2", "const_expert_v")
    for what, table in zip(names, constants):
        text = f"const_expert_num {special.constants} needs {what}"
        check(not special.constants or table is not None, name, text)
        check_dtype(table, name, what, kind)
        check_shape(table, name, what, (special.constants, width))


def _of_special(
    special: _Special, numbers: Tensor, ori_x: Tensor, *constants: Tensor | None
) -> Tensor:
    """What copy and constant experts return for each choice, (tokens, k, h) in f32. The
    special experts have the `numbers` (tokens, k) from 0, the others negative ones."""
    own = ori_x.to(torch.float32).unsqueeze(1)
    first = special.zeros
    copied = (numbers >= first) & (numbers < first + special.copies)
    result = torch.where(copied.unsqueeze(-1), own, 0.0)
    if special.constants == 0:
        return result
    number = numbers.to(torch.int64) - first - special.copies
    rows = number.clamp(0, special.constants - 1)
    alpha_1, alpha_2, v = (
        table[rows].to(torch.float32) for table in constants if table is not None
    )
    inside = (number >= 0) & (number < special.constants)
    made = alpha_1 * own + alpha_2 * v
    return torch.where(inside.unsqueeze(-1), made, result)


def _shared(name: str, rows: Tensor, expand_x: Tensor, tokens: int) -> Tensor:
    """shared_expert_x as (tokens, h)."""
    width = expand_x.shape[1]
    check_dtype(rows, name, "shared_expert_x", (expand_x.dtype,))
    right = rows.dim() in (2, 3) and rows.shape[-1] == width
    right = right and rows.numel() == tokens * width
    text = f"shared_expert_x must be ({tokens}, {width}), or (a, b, {width}) with"
    got = f"a * b = {tokens}, got {tuple(rows.shape)}"
    check(right, name, f"{text} {got}")
    return rows.reshape(tokens, width)
