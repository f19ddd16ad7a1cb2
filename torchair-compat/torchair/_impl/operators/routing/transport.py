"""Rows on their way to the ranks of their experts and back: what all versions of dispatch
and combine share."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape, reads_values
from ..quantisation.rows import row_scale
from .expert_ranks import ExpertRanks

Results = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]

DYNAMIC = 2  # the quant_mode that scales each row by its largest element


def checked_ranks(
    name: str,
    expert_ids: Tensor,
    group: str,
    world: int,
    rank: int,
    experts: int,
    shared: int,
    shared_experts: int,
    global_bs: int,
    special: int = 0,
) -> ExpertRanks:
    """The ranks of a call. `special` experts, after the others, are on no rank.
    RuntimeError: numbers that do not fit together, or a choice of no expert."""
    check_dtype(expert_ids, name, "expert_ids", (torch.int32,))
    check(expert_ids.dim() == 2, name, "expert_ids must have 2 dimensions")
    tokens, choices = expert_ids.shape
    even = global_bs >= 0 and global_bs % max(world, 1) == 0
    check(even, name, f"global_bs must be a multiple of {world}, got {global_bs}")
    most = global_bs // world if global_bs else tokens
    check(tokens <= most, name, f"global_bs {global_bs} has no place for {tokens} rows")
    total = experts + special
    check(0 < choices <= total, name, f"{choices} choices of {total} experts")
    if reads_values(expert_ids) and tokens:
        low, high = int(expert_ids.min()), int(expert_ids.max())
        text = f"expert_ids must be from 0 to {total - 1}, got {low} to {high}"
        check(0 <= low and high < total, name, text)
    found = ExpertRanks(
        name, group, world, rank, experts, shared, most, choices, shared_experts
    )
    found.check()
    return found


def check_reserved(name: str, tp_world_size: int, shard: int) -> None:
    for what, value, known in (
        ("tp_world_size", tp_world_size, (0, 1)),
        ("expert_shard_type", shard, (0,)),
    ):
        right = value in known
        check(right, name, f"{what} must be one of {known}, got {value}")


def check_dispatched(
    name: str,
    x: Tensor,
    expert_ids: Tensor,
    expert_scales: Tensor | None,
    scales: Tensor | None,
    quant_mode: int,
    ranks: ExpertRanks,
) -> None:
    """RuntimeError: shapes, dtypes or scales that do not fit rows x of floats."""
    check_dtype(x, name, "x", FLOATS)
    tokens, width = x.shape
    check_shape(expert_ids, name, "expert_ids", (tokens, ranks.choices))
    check_shape(expert_scales, name, "expert_scales", (tokens, ranks.choices))
    check_dtype(expert_scales, name, "expert_scales", (torch.float32,))
    shared = ranks.shared_experts if ranks.shared else 0
    check_shape(scales, name, "scales", (shared + ranks.experts, width))
    check_dtype(scales, name, "scales", (torch.float32,))
    fits = scales is None or quant_mode == DYNAMIC
    check(fits, name, "scales need quant_mode 2")


class Sent(NamedTuple):
    """What a rank receives, and what its own copies need on their way back."""

    rows: Tensor  # (a, h)
    factors: Tensor  # (a,) f32, or empty
    weights: Tensor  # (a,) f32, or empty
    sizes: Tensor  # rows of each expert here
    ends: Tensor  # ends of the rows of each expert here from each rank
    numbers: Tensor  # (tokens, copies): how many copies go to the same expert before

    def results(self, info: Tensor, token_nums_type: int) -> Results:
        """The results of dispatch, with `info`, int32, for combine."""
        return (
            self.rows,
            self.factors,
            info,
            self.sizes if token_nums_type == 1 else self.sizes.cumsum(0),
            self.ends.to(torch.int32),
            info.new_empty(0),
            self.weights,
        )


def send_rows(
    ranks: ExpertRanks,
    owners: Tensor,
    x: Tensor,
    expert_ids: Tensor,
    scales: Tensor | None,
    expert_scales: Tensor | None,
    quant_mode: int,
) -> Sent:
    """Sends a copy of each row of x to each of its owners. Integers travel with their
    `scales` (tokens,)."""
    tokens, copies = owners.shape
    places, numbers = ranks.places(owners.reshape(-1))
    counts = ranks.exchange(ranks.counts(owners.reshape(-1)))
    here = counts.reshape(ranks.world, ranks.local)[:, : ranks.here].t()
    ends = here.reshape(-1).cumsum(0)
    taken, inside = ranks.received(ends)

    def sent(values: Tensor) -> Tensor:
        """The rows that this rank gets, from the values of each copy on all ranks."""
        arrived = ranks.exchange(ranks.blocks(places, values))[taken]
        return torch.where(inside.unsqueeze(-1), arrived, torch.zeros_like(arrived))

    rows, factor = x.repeat_interleave(copies, 0), None
    if quant_mode == DYNAMIC:
        rows, factor = _quantised(rows, expert_ids, scales, copies)
    elif scales is not None:
        factor = scales.repeat_interleave(copies)
    weights = None
    if expert_scales is not None:
        ones = expert_scales.new_ones(tokens, copies - ranks.choices)
        weights = torch.cat([expert_scales, ones], 1).reshape(-1)

    def vector(values: Tensor | None) -> Tensor:
        if values is None:
            return x.new_empty(0, dtype=torch.float32)
        return sent(values.unsqueeze(-1)).squeeze(-1)

    return Sent(
        rows=sent(rows),
        factors=vector(factor),
        weights=vector(weights),
        sizes=here.sum(1),
        ends=ends,
        numbers=numbers.reshape(tokens, -1),
    )


def _quantised(
    rows: Tensor, expert_ids: Tensor, scales: Tensor | None, copies: int
) -> tuple[Tensor, Tensor]:
    """int8 rows and their scales, after `scales` of their experts; those of shared
    experts come first."""
    wide = rows.to(torch.float32)
    if scales is not None:
        shared = copies - expert_ids.shape[1]
        experts = (expert_ids.to(torch.int64) + shared).clamp(0, scales.shape[0] - 1)
        if shared:
            first = torch.arange(shared, device=experts.device)
            experts = torch.cat([experts, first.expand(experts.shape[0], -1)], 1)
        wide = wide * scales[experts.reshape(-1)]
    return row_scale(wide)


def return_rows(
    ranks: ExpertRanks,
    owners: Tensor,
    rows: Tensor,
    ends: Tensor,
    comm_quant_mode: int,
) -> Tensor:
    """The experts' results for each copy of this rank's rows, (tokens, copies, h) in f32;
    zeros for copies that went to nobody. `rows` and `ends` are as `send_rows` orders
    them; int8 travel in `comm_quant_mode` 2."""
    taken, inside = ranks.received(ends.to(torch.int64))
    # Rows that nobody sent go after all blocks, where nobody reads them.
    end = ranks.world * ranks.block
    lines = torch.where(inside, taken, end)
    places, _ = ranks.places(owners.reshape(-1))
    known = (places < end).unsqueeze(-1)

    def returned(values: Tensor) -> Tensor:
        found = ranks.exchange(ranks.blocks(lines, values))
        found = found[places.clamp(max=end - 1)].to(torch.float32)
        return torch.where(known, found, 0.0)

    if comm_quant_mode == 0:
        made = returned(rows)
    else:
        small, factor = row_scale(rows.to(torch.float32))
        made = returned(small) * returned(factor.unsqueeze(-1))
    return made.unflatten(0, owners.shape)
