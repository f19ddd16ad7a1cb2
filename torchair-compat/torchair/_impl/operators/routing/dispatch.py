"""Sends tokens to the ranks of their experts, and returns the results.

After Ascend's API reference of torch_npu: pages npu_moe_distribute_dispatch and
npu_moe_distribute_combine."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..quantisation.rows import row_scale
from ..schema import Reserved
from .expert_ranks import ExpertRanks

_RANKS = " str group_ep, int ep_world_size, int ep_rank_id, int moe_expert_num, *,"
_SHARED = (
    " str group_tp='', int tp_world_size=0, int tp_rank_id=0,"
    " int expert_shard_type=0, int shared_expert_num=1,"
    " int shared_expert_rank_num=0,"
)


def _ranks(
    name: str,
    expert_ids: Tensor,
    group: str,
    world: int,
    rank: int,
    experts: int,
    shared: int,
    global_bs: int,
) -> ExpertRanks:
    check_dtype(expert_ids, name, "expert_ids", (torch.int32,))
    check(expert_ids.dim() == 2, name, "expert_ids must have 2 dimensions")
    tokens, choices = expert_ids.shape
    even = global_bs >= 0 and global_bs % max(world, 1) == 0
    check(even, name, f"global_bs must be a multiple of {world}, got {global_bs}")
    most = global_bs // world if global_bs else tokens
    check(tokens <= most, name, f"global_bs {global_bs} has no place for {tokens} rows")
    fits = 0 < choices <= experts
    check(fits, name, f"{choices} choices of {experts} experts")
    found = ExpertRanks(name, group, world, rank, experts, shared, most, choices)
    found.check()
    return found


def _check_reserved(name: str, tp_world_size: int, shard: int, shared: int) -> None:
    for what, value, known in (
        ("tp_world_size", tp_world_size, (0, 1)),
        ("expert_shard_type", shard, (0,)),
        ("shared_expert_num", shared, (1,)),
    ):
        right = value in known
        check(right, name, f"{what} must be one of {known}, got {value}")


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
    _check_reserved(name, tp_world_size, expert_shard_type, shared_expert_num)
    check(quant_mode in (0, 2), name, f"quant_mode must be 0 or 2, got {quant_mode}")
    known = expert_token_nums_type in (0, 1)
    check(known, name, f"no such expert_token_nums_type: {expert_token_nums_type}")
    check_dtype(x, name, "x")
    check(x.dim() == 2, name, f"x must have 2 dimensions, got {x.dim()}")
    ranks = _ranks(
        name,
        expert_ids,
        group_ep,
        ep_world_size,
        ep_rank_id,
        moe_expert_num,
        shared_expert_rank_num,
        global_bs,
    )
    tokens, width = x.shape
    check_shape(expert_ids, name, "expert_ids", (tokens, ranks.choices))
    check_shape(expert_scales, name, "expert_scales", (tokens, ranks.choices))
    check_dtype(expert_scales, name, "expert_scales", (torch.float32,))
    shared = shared_expert_num if ranks.shared else 0
    check_shape(scales, name, "scales", (shared + moe_expert_num, width))
    check_dtype(scales, name, "scales", (torch.float32,))
    check(scales is None or quant_mode == 2, name, "scales need quant_mode 2")

    owners = ranks.owners(expert_ids)
    places, numbers = ranks.places(owners.reshape(-1))
    rows, factor = _copies(x, expert_ids, scales, quant_mode, shared, owners.shape[1])
    counts = ranks.exchange(ranks.counts(owners.reshape(-1)))
    here = counts.reshape(ranks.world, ranks.local)[:, : ranks.here].t()
    ends = here.reshape(-1).cumsum(0)
    taken, inside = ranks.received(ends)

    def sent(values: Tensor) -> Tensor:
        """The rows that this rank gets, from the values of each copy on all ranks."""
        blocks = values.new_zeros(ranks.world * ranks.block, values.shape[1])
        arrived = ranks.exchange(blocks.index_put((places,), values))[taken]
        return torch.where(inside.unsqueeze(-1), arrived, torch.zeros_like(arrived))

    none = x.new_empty(0, dtype=torch.float32)
    weights = none
    if expert_scales is not None:
        ones = expert_scales.new_ones(tokens, owners.shape[1] - ranks.choices)
        whole = torch.cat([expert_scales, ones], 1)
        weights = sent(whole.reshape(-1, 1)).squeeze(-1)
    sizes = here.sum(1)
    own = numbers.reshape(tokens, -1)[:, : ranks.choices].reshape(-1)
    return (
        sent(rows),
        none.clone() if factor is None else sent(factor.unsqueeze(-1)).squeeze(-1),
        own.to(torch.int32),
        sizes if expert_token_nums_type == 1 else sizes.cumsum(0),
        ends.to(torch.int32),
        x.new_empty(0, dtype=torch.int32),
        weights.clone() if weights is none else weights,
    )


def _copies(
    x: Tensor,
    expert_ids: Tensor,
    scales: Tensor | None,
    quant_mode: int,
    shared: int,
    columns: int,
) -> tuple[Tensor, Tensor | None]:
    """A row for each choice, and one for the shared expert; and their scales."""
    rows = x.repeat_interleave(columns, 0)
    if quant_mode == 0:
        return rows, None
    wide = rows.to(torch.float32)
    if scales is not None:
        experts = expert_ids.to(torch.int64) + shared
        if columns > experts.shape[1]:
            experts = torch.cat([experts, torch.zeros_like(experts[:, :1])], 1)
        wide = wide * scales[experts.reshape(-1)]
    return row_scale(wide)


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
    _check_reserved(name, tp_world_size, expert_shard_type, shared_expert_num)
    check_dtype(expand_x, name, "expand_x")
    ranks = _ranks(
        name,
        expert_ids,
        group_ep,
        ep_world_size,
        ep_rank_id,
        moe_expert_num,
        shared_expert_rank_num,
        global_bs,
    )
    tokens, choices = expert_ids.shape
    check_shape(expand_x, name, "expand_x", (ranks.rows, expand_x.shape[-1]))
    check_shape(expand_idx, name, "expand_idx", (tokens * choices,))
    check_shape(expert_scales, name, "expert_scales", (tokens, choices))
    shape = (ranks.here * ranks.world,)
    check_shape(ep_send_counts, name, "ep_send_counts", shape)
    taken, inside = ranks.received(ep_send_counts.to(torch.int64))
    # Rows that nobody sent go behind all blocks, where nobody reads them.
    behind = ranks.world * ranks.block
    lines = torch.where(inside, taken, behind)
    owners = ranks.owners(expert_ids)
    places, _ = ranks.places(owners.reshape(-1))

    def returned(values: Tensor) -> Tensor:
        """The experts' results for each copy of this rank's rows, in f32."""
        blocks = values.new_zeros(behind + 1, values.shape[1])
        blocks = blocks.index_put((lines,), values)
        return ranks.exchange(blocks[:behind])[places].to(torch.float32)

    if comm_quant_mode == 0:
        made = returned(expand_x)
    else:
        rows, factor = row_scale(expand_x.to(torch.float32))
        made = returned(rows) * returned(factor.unsqueeze(-1))
    made = made.unflatten(0, (tokens, -1))
    weights = expert_scales.to(torch.float32).unsqueeze(-1)
    result = (made[:, :choices] * weights).sum(1)
    if owners.shape[1] > choices:
        result = result + made[:, choices]
    return result.to(expand_x.dtype)
