"""Sends tokens to the ranks of their experts and returns the results, with tokens that rest
and with experts that compute nothing.

After Ascend's API reference of torch_npu: pages npu_moe_distribute_dispatch_v2 and
npu_moe_distribute_combine_v2."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator_of
from ..schema import Reserved, arguments_of
from .transport import DYNAMIC, SEVEN, Ranks, Results, Rows, return_rows

_INFO = 128  # elements of assist_info_for_combine for each row
_ALGORITHMS = ("", "fullmesh", "fullmesh_v1", "fullmesh_v2", "hierarchy")


@dataclasses.dataclass(frozen=True)
class _Special:
    """The arguments that only the second versions have: among others how many experts of
    each kind follow the others. None of these is on a rank."""

    _: dataclasses.KW_ONLY
    elastic_info: Reserved[Tensor | None] = None
    performance_info: Tensor | None = None
    comm_alg: str = ""
    zero_expert_num: int = 0
    copy_expert_num: int = 0
    const_expert_num: int = 0

    @property
    def special(self) -> int:
        """The number of all special experts."""
        return self.zero_expert_num + self.copy_expert_num + self.const_expert_num

    def check(self, name: str) -> None:
        algorithm = self.comm_alg
        text = f"comm_alg must be one of {_ALGORITHMS}, got {algorithm!r}"
        check(algorithm in _ALGORITHMS, name, text)
        text = "performance_info must be None: this host does not measure single ranks"
        check(self.performance_info is None, name, text)
        for what in ("zero_expert_num", "copy_expert_num", "const_expert_num"):
            number = getattr(self, what)
            check(number >= 0, name, f"{what} must not be negative, got {number}")


@dataclasses.dataclass(frozen=True)
class _Dispatch(_Special, Ranks, Rows):
    """The arguments of npu_moe_distribute_dispatch_v2."""

    _: dataclasses.KW_ONLY
    y_dtype: Reserved[int | None] = None
    x_dtype: Reserved[int | None] = None
    scales_dtype: Reserved[int | None] = None


@dataclasses.dataclass(frozen=True)
class _Made:
    """What experts made, as npu_moe_distribute_combine_v2 takes it."""

    expand_x: Tensor
    expert_ids: Tensor
    assist_info_for_combine: Tensor
    ep_send_counts: Tensor
    expert_scales: Tensor
    _: dataclasses.KW_ONLY
    tp_send_counts: Tensor | None = None
    x_active_mask: Tensor | None = None
    expand_scales: Tensor | None = None
    shared_expert_x: Tensor | None = None
    ori_x: Tensor | None = None
    const_expert_alpha_1: Tensor | None = None
    const_expert_alpha_2: Tensor | None = None
    const_expert_v: Tensor | None = None
    comm_quant_mode: int = 0

    @property
    def constants(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """The numbers of constant experts."""
        return (
            self.const_expert_alpha_1,
            self.const_expert_alpha_2,
            self.const_expert_v,
        )


@dataclasses.dataclass(frozen=True)
class _Combine(_Special, Ranks, _Made):
    """The arguments of npu_moe_distribute_combine_v2."""


def _active(name: str, mask: Tensor | None, expert_ids: Tensor) -> Tensor | None:
    """Which choices are made, (tokens, k). None: all of them."""
    if mask is None:
        return None
    check_dtype(mask, name, "x_active_mask", (torch.bool,))
    shape = tuple(expert_ids.shape)
    check_shape(mask, name, "x_active_mask", shape[:1], shape)
    return mask.unsqueeze(1).expand(shape) if mask.dim() == 1 else mask


@npu_operator_of(f"{arguments_of(_Dispatch)} -> {SEVEN}", _Dispatch)
def npu_moe_distribute_dispatch_v2(*operands: Any, **options: Any) -> Results:
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
    name, given = "npu_moe_distribute_dispatch_v2", _Dispatch(*operands, **options)
    given.check(name)
    x, expert_ids, packed = given.x, given.expert_ids, given.x.dtype == torch.int32
    given.check_form(name, (0,) if packed else (0, DYNAMIC), f" for x of {x.dtype}")
    ranks = given.found(name, expert_ids, given.special)
    if packed:
        scales = given.scales
        text = "x of int32 needs scales, one for each row"
        check(scales is not None, name, text)
        check_dtype(scales, name, "scales", (torch.float32,))
        check_shape(scales, name, "scales", (x.shape[0],))
        shape = tuple(expert_ids.shape)
        check_shape(given.expert_scales, name, "expert_scales", shape)
    else:
        given.check_floats(name, ranks)
    sent = given.send(ranks, _active(name, given.x_active_mask, expert_ids))
    nothing = x.new_zeros(ranks.rows * _INFO, dtype=torch.int32)
    return sent.results(nothing, given.expert_token_nums_type)


@npu_operator_of(f"{arguments_of(_Combine)} -> Tensor", _Combine)
def npu_moe_distribute_combine_v2(*operands: Any, **options: Any) -> Tensor:
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
    name, given = "npu_moe_distribute_combine_v2", _Combine(*operands, **options)
    given.check(name)
    mode, expand_x, expert_ids = given.comm_quant_mode, given.expand_x, given.expert_ids
    text = f"comm_quant_mode must be 0 or 2, got {mode}"
    check(mode in (0, DYNAMIC), name, text)
    check_dtype(expand_x, name, "expand_x", FLOATS)
    check(expand_x.dim() == 2, name, "expand_x must have 2 dimensions")
    ranks = given.found(name, expert_ids, given.special)
    tokens, choices = expert_ids.shape
    for what, shape in (
        ("expand_x", (ranks.rows, expand_x.shape[1])),
        ("assist_info_for_combine", (ranks.rows * _INFO,)),
        ("expert_scales", (tokens, choices)),
        ("ep_send_counts", (ranks.here * ranks.world,)),
    ):
        check_shape(getattr(given, what), name, what, shape)
    check_dtype(given.expert_scales, name, "expert_scales", (torch.float32,))
    _check_special(name, given)
    active = _active(name, given.x_active_mask, expert_ids)
    owners = ranks.owners(expert_ids, active)
    made = return_rows(ranks, owners, expand_x, given.ep_send_counts, mode)
    experts, weights = made[:, :choices], given.expert_scales
    if given.copy_expert_num or given.const_expert_num:
        experts = experts + _of_special(given)
    if active is not None:
        weights = torch.where(active, weights, 0.0)
    result = (experts * weights.unsqueeze(-1)).sum(1) + made[:, choices:].sum(1)
    if given.shared_expert_x is not None:
        flat = _shared(name, given.shared_expert_x, expand_x, tokens)
        result = result + flat.to(torch.float32)
    if active is not None:
        result = torch.where(active.any(1, keepdim=True), result, 0.0)
    return result.to(expand_x.dtype)


def _check_special(name: str, given: _Combine) -> None:
    """RuntimeError: special experts lack an operand, or it does not fit expand_x."""
    width, kind = given.expand_x.shape[1], (given.expand_x.dtype,)
    number, ori_x = given.const_expert_num, given.ori_x
    text = "copy_expert_num and const_expert_num need ori_x"
    check(not (given.copy_expert_num or number) or ori_x is not None, name, text)
    check_dtype(ori_x, name, "ori_x", kind)
    check_shape(ori_x, name, "ori_x", (given.expert_ids.shape[0], width))
    names = ("const_expert_alpha_1", "const_expert_alpha_2", "const_expert_v")
    for what, table in zip(names, given.constants):
        text = f"const_expert_num {number} needs {what}"
        check(not number or table is not None, name, text)
        check_dtype(table, name, what, kind)
        check_shape(table, name, what, (number, width))


def _of_special(given: _Combine) -> Tensor:
    """What copy and constant experts return for each choice, (tokens, k, h) in f32."""
    assert given.ori_x is not None
    own = given.ori_x.to(torch.float32).unsqueeze(1)
    # From 0 for special experts, negative for the others.
    numbers = given.expert_ids - given.moe_expert_num
    first = given.zero_expert_num
    copied = (numbers >= first) & (numbers < first + given.copy_expert_num)
    result = torch.where(copied.unsqueeze(-1), own, 0.0)
    if given.const_expert_num == 0:
        return result
    number = numbers.to(torch.int64) - first - given.copy_expert_num
    rows = number.clamp(0, given.const_expert_num - 1)
    alpha_1, alpha_2, v = (
        table[rows].to(torch.float32) for table in given.constants if table is not None
    )
    inside = (number >= 0) & (number < given.const_expert_num)
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
