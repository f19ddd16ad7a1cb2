"""Sends tokens to the ranks of their experts, and returns the results.

After Ascend's API reference of torch_npu: pages npu_moe_distribute_dispatch and
npu_moe_distribute_combine."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator_of
from ..schema import Reserved, arguments_of
from .expert_ranks import ExpertRanks
from .transport import DYNAMIC, SEVEN, Ranks, Results, Rows, return_rows


@dataclasses.dataclass(frozen=True)
class _Dispatch(Ranks, Rows):
    """The arguments of npu_moe_distribute_dispatch."""


@dataclasses.dataclass(frozen=True)
class _Made:
    """What experts made, as npu_moe_distribute_combine takes it."""

    expand_x: Tensor
    expert_ids: Tensor
    expand_idx: Tensor
    ep_send_counts: Tensor
    expert_scales: Tensor
    _: dataclasses.KW_ONLY
    tp_send_counts: Tensor | None = None
    x_active_mask: Tensor | None = None
    activation_scale: Tensor | None = None
    weight_scale: Tensor | None = None
    group_list: Tensor | None = None
    expand_scales: Tensor | None = None
    shared_expert_x: Tensor | None = None


@dataclasses.dataclass(frozen=True)
class _Combine(Ranks, _Made):
    """The arguments of npu_moe_distribute_combine."""

    _: dataclasses.KW_ONLY
    out_dtype: Reserved[int] = 0
    comm_quant_mode: int = 0
    group_list_type: Reserved[int] = 0


def _ranks(name: str, given: _Dispatch | _Combine) -> ExpertRanks:
    text = f"shared_expert_num must be one of (1,), got {given.shared_expert_num}"
    check(given.shared_expert_num == 1, name, text)
    return given.found(name, given.expert_ids)


@npu_operator_of(f"{arguments_of(_Dispatch)} -> {SEVEN}")
def npu_moe_distribute_dispatch(*operands: Any, **options: Any) -> Results:
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
    name, given = "npu_moe_distribute_dispatch", _Dispatch(*operands, **options)
    check(given.x_active_mask is None, name, "x_active_mask must be None")
    given.check_form(name, (0, DYNAMIC))
    check_dtype(given.x, name, "x")
    ranks = _ranks(name, given)
    given.check_floats(name, ranks)
    sent = given.send(ranks)
    own = sent.numbers[:, : ranks.choices].reshape(-1)
    return sent.results(own.to(torch.int32), given.expert_token_nums_type)


@npu_operator_of(f"{arguments_of(_Combine)} -> Tensor", _Combine)
def npu_moe_distribute_combine(*operands: Any, **options: Any) -> Tensor:
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
    name, given = "npu_moe_distribute_combine", _Combine(*operands, **options)
    mode, expand_x, scales = given.comm_quant_mode, given.expand_x, given.expert_scales
    text = f"comm_quant_mode must be 0 or 2, got {mode}"
    check(mode in (0, DYNAMIC), name, text)
    for what in (
        "x_active_mask",
        "activation_scale",
        "weight_scale",
        "group_list",
        "shared_expert_x",
    ):
        check(getattr(given, what) is None, name, f"{what} must be None")
    check_dtype(expand_x, name, "expand_x")
    ranks = _ranks(name, given)
    tokens, choices = given.expert_ids.shape
    check_shape(expand_x, name, "expand_x", (ranks.rows, expand_x.shape[-1]))
    check_shape(given.expand_idx, name, "expand_idx", (tokens * choices,))
    check_shape(scales, name, "expert_scales", (tokens, choices))
    shape = (ranks.here * ranks.world,)
    check_shape(given.ep_send_counts, name, "ep_send_counts", shape)
    owners = ranks.owners(given.expert_ids)
    made = return_rows(ranks, owners, expand_x, given.ep_send_counts, mode)
    weights = scales.to(torch.float32).unsqueeze(-1)
    result = (made[:, :choices] * weights).sum(1) + made[:, choices:].sum(1)
    return result.to(expand_x.dtype)
