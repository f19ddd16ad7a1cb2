"""Rows on their way to the ranks of their experts and back: what all versions of dispatch
and combine share."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape, reads_values
from ..quantisation.rows import row_scale
from .expert_ranks import ExpertRanks

Results = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
SEVEN = f"({', '.join(['Tensor'] * 7)})"  # the same in a schema

DYNAMIC = 2  # the quant_mode that scales each row by its largest element


@dataclasses.dataclass(frozen=True)
class Ranks:
    """The arguments that say which ranks have which experts."""

    group_ep: str
    ep_world_size: int
    ep_rank_id: int
    moe_expert_num: int
    _: dataclasses.KW_ONLY
    group_tp: str = ""
    tp_world_size: int = 0
    tp_rank_id: int = 0
    expert_shard_type: int = 0
    shared_expert_num: int = 1
    shared_expert_rank_num: int = 0
    global_bs: int = 0

    def found(self, name: str, expert_ids: Tensor, special: int = 0) -> ExpertRanks:
        """The ranks of a call. `special` experts, after the others, are on no rank.
        RuntimeError: numbers that do not fit together, or a choice of no expert."""
        self._check_reserved(name)
        check_dtype(expert_ids, name, "expert_ids", (torch.int32,))
        check(expert_ids.dim() == 2, name, "expert_ids must have 2 dimensions")
        tokens, choices = expert_ids.shape
        world, every = self.ep_world_size, self.global_bs
        even = every >= 0 and every % max(world, 1) == 0
        check(even, name, f"global_bs must be a multiple of {world}, got {every}")
        most = every // world if every else tokens
        check(tokens <= most, name, f"global_bs {every} has no place for {tokens} rows")
        total = self.moe_expert_num + special
        check(0 < choices <= total, name, f"{choices} choices of {total} experts")
        if reads_values(expert_ids) and tokens:
            low, high = int(expert_ids.min()), int(expert_ids.max())
            text = f"expert_ids must be from 0 to {total - 1}, got {low} to {high}"
            check(0 <= low and high < total, name, text)
        found = ExpertRanks(
            name,
            self.group_ep,
            world,
            self.ep_rank_id,
            self.moe_expert_num,
            self.shared_expert_rank_num,
            most,
            choices,
            self.shared_expert_num,
        )
        found.check()
        return found

    def _check_reserved(self, name: str) -> None:
        for what, value, known in (
            ("tp_world_size", self.tp_world_size, (0, 1)),
            ("expert_shard_type", self.expert_shard_type, (0,)),
        ):
            right = value in known
            check(right, name, f"{what} must be one of {known}, got {value}")


@dataclasses.dataclass(frozen=True)
class Rows:
    """The arguments of dispatch that say what is sent."""

    x: Tensor
    expert_ids: Tensor
    _: dataclasses.KW_ONLY
    scales: Tensor | None = None
    x_active_mask: Tensor | None = None
    expert_scales: Tensor | None = None
    quant_mode: int = 0
    expert_token_nums_type: int = 1

    def check_form(self, name: str, modes: tuple[int, ...], kind: str = "") -> None:
        """RuntimeError: x is no matrix, or a mode is not one of these."""
        text = f"quant_mode must be {' or '.join(map(str, modes))}{kind}"
        check(self.quant_mode in modes, name, f"{text}, got {self.quant_mode}")
        known = self.expert_token_nums_type in (0, 1)
        text = f"no such expert_token_nums_type: {self.expert_token_nums_type}"
        check(known, name, text)
        check(self.x.dim() == 2, name, f"x must have 2 dimensions, got {self.x.dim()}")

    def check_floats(self, name: str, ranks: ExpertRanks) -> None:
        """RuntimeError: shapes, dtypes or scales that do not fit rows x of floats."""
        check_dtype(self.x, name, "x", FLOATS)
        tokens, width = self.x.shape
        chosen = (tokens, ranks.choices)
        check_shape(self.expert_ids, name, "expert_ids", chosen)
        check_shape(self.expert_scales, name, "expert_scales", chosen)
        check_dtype(self.expert_scales, name, "expert_scales", (torch.float32,))
        shared = ranks.shared_experts if ranks.shared else 0
        check_shape(self.scales, name, "scales", (shared + ranks.experts, width))
        check_dtype(self.scales, name, "scales", (torch.float32,))
        fits = self.scales is None or self.quant_mode == DYNAMIC
        check(fits, name, "scales need quant_mode 2")

    def send(self, ranks: ExpertRanks, active: Tensor | None = None) -> Sent:
        """Sends a copy of each row of x to each of its owners. Integers travel with their
        `scales` (tokens,)."""
        owners = ranks.owners(self.expert_ids, active)
        rows = self.x, self.expert_ids, self.scales, self.expert_scales
        return _send(ranks, owners, *rows, self.quant_mode)


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


def _send(
    ranks: ExpertRanks,
    owners: Tensor,
    x: Tensor,
    expert_ids: Tensor,
    scales: Tensor | None,
    expert_scales: Tensor | None,
    quant_mode: int,
) -> Sent:
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
    zeros for copies that went to nobody. `rows` and `ends` are as dispatch orders them;
    int8 travel in `comm_quant_mode` 2."""
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
