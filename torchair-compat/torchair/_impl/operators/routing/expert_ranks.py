"""Says which rank has which expert, and where the copies of a token are on their way
there.

Every rank sends every other rank a block with as many rows as it may need at most, so a
graph knows all sizes. A block has the rows of the receiver's experts, one expert after
the other, then zeros."""

from __future__ import annotations

import dataclasses

import torch
import torch.distributed as dist
from torch import Tensor

from ..checks import check
from ..quantisation.rows import group_of_rows

__all__ = ["ExpertRanks"]


@dataclasses.dataclass(frozen=True)
class ExpertRanks:
    """The ranks of a group. Each of the first `shared` ranks has one of the shared experts,
    copies of one expert following each other; the other ranks have `experts` in equal
    parts."""

    name: str  # the name of the operator, for messages
    group: str
    world: int
    rank: int
    experts: int
    shared: int
    most: int  # tokens of a rank
    choices: int  # experts of each token
    shared_experts: int = 1  # each has as many copies

    def check(self) -> None:
        """RuntimeError: numbers that do not fit together, or are not the group's."""
        name = self.name
        found = dist.distributed_c10d._resolve_process_group(self.group)
        size, rank = found.size(), found.rank()
        same = (self.world, self.rank) == (size, rank)
        text = f"ep_world_size {self.world} and ep_rank_id {self.rank} must be those of"
        check(same, name, f"{text} {self.group!r}, {size} and {rank}")
        fits = 0 <= self.shared < self.world
        text = f"shared_expert_rank_num must be from 0 to {self.world - 1}"
        check(fits, name, f"{text}, got {self.shared}")
        if self.shared:
            known = 0 < self.shared_experts and self.shared % self.shared_experts == 0
            text = f"shared_expert_rank_num {self.shared} must be a multiple of"
            check(known, name, f"{text} shared_expert_num {self.shared_experts}")
            even = self.world % self.copies == 0
            text = f"{self.copies} copies of a shared expert do not divide {self.world}"
            check(even, name, text)
        others = self.world - self.shared
        even = self.experts > 0 and self.experts % others == 0
        check(even, name, f"{self.experts} experts do not divide among {others} ranks")

    @property
    def local(self) -> int:
        """The experts of a rank without a shared one."""
        return self.experts // (self.world - self.shared)

    @property
    def copies(self) -> int:
        """The ranks of each shared expert."""
        return self.shared // max(self.shared_experts, 1)

    @property
    def nobody(self) -> int:
        """The owner of a choice that no rank gets."""
        return self.world * self.local

    @property
    def here(self) -> int:
        """The experts of this rank."""
        return 1 if self.rank < self.shared else self.local

    @property
    def block(self) -> int:
        """The most rows that a rank sends another one."""
        return self.most * max(min(self.local, self.choices), 1)

    @property
    def rows(self) -> int:
        """The most rows that this rank receives."""
        if self.rank < self.shared:
            return self.most * self.world // self.copies
        return self.block * self.world

    def owners(self, expert_ids: Tensor, active: Tensor | None = None) -> Tensor:
        """For each choice (tokens, choices): rank * `local` + the expert's number there,
        or `nobody` for an expert that no rank has. After them is a column for each
        shared expert. Choices that are not `active`, (tokens, choices) bool, go to
        nobody."""
        ids = expert_ids.to(torch.int64)
        sent = (ids >= 0) & (ids < self.experts)
        sent = sent if active is None else sent & active
        found = torch.where(sent, ids + self.shared * self.local, self.nobody)
        if self.shared == 0:
            return found
        copy = self.rank // (self.world // self.copies)
        numbers = torch.arange(self.shared_experts, device=ids.device)
        ranks = (numbers * self.copies + copy).expand(ids.shape[0], -1) * self.local
        if active is not None:
            ranks = torch.where(active.any(1, keepdim=True), ranks, self.nobody)
        return torch.cat([found, ranks], 1)

    def places(self, owners: Tensor) -> tuple[Tensor, Tensor]:
        """For each owner (choices,): its row in all blocks, which for nobody is the one
        after them, and how many equal owners come before it. Both are int64."""
        order = torch.sort(owners, stable=True).indices
        counts = self.counts(owners)
        starts = counts.cumsum(0) - counts
        numbers = torch.arange(owners.shape[0], device=owners.device)
        line = torch.zeros_like(numbers).scatter(0, order, numbers)
        first = starts.reshape(self.world, self.local)[:, 0]
        known = owners.clamp(0, self.nobody - 1)
        ranks = torch.div(known, self.local, rounding_mode="floor")
        place = ranks * self.block + line - first[ranks]
        place = torch.where(owners < self.nobody, place, self.world * self.block)
        return place, line - starts[known]

    def counts(self, owners: Tensor) -> Tensor:
        """The number of choices of each owner but nobody, (world * local,) int64."""
        zeros = torch.zeros(self.nobody + 1, dtype=torch.int64, device=owners.device)
        return zeros.scatter_add(0, owners, torch.ones_like(owners))[: self.nobody]

    def blocks(self, places: Tensor, values: Tensor) -> Tensor:
        """The blocks of all ranks, with each value at its place and zeros elsewhere. Values
        after the blocks are left out."""
        end = self.world * self.block
        whole = values.new_zeros(end + 1, values.shape[1])
        return whole.index_put((places,), values)[:end]

    def exchange(self, values: Tensor) -> Tensor:
        """Sends an equal part of the first dimension to each rank, and receives one
        from each."""
        part = [values.shape[0] // self.world] * self.world
        operators = torch.ops._c10d_functional
        # As bytes: gloo does not send every dtype.
        sent = values.contiguous().reshape(values.shape[0], -1).view(torch.uint8)
        found = operators.all_to_all_single(sent, part, part, self.group)
        found = operators.wait_tensor(found).view(values.dtype)
        return found.reshape(values.shape)

    def received(self, ends: Tensor) -> tuple[Tensor, Tensor]:
        """For each row that this rank may have, (`rows`,): its row in the received
        blocks, and whether it exists. `ends` (here * world,) are the ends of each
        expert's rows from each rank."""
        sizes = torch.diff(ends, prepend=ends.new_zeros(1)).reshape(self.here, -1)
        # the place in the block of a rank, for an expert
        before = sizes.cumsum(0) - sizes
        numbers = torch.arange(self.rows, device=ends.device)
        segment = group_of_rows(ends, self.rows)
        inside = segment < ends.shape[0]
        segment = segment.clamp(max=ends.shape[0] - 1)
        line = numbers - (ends - sizes.reshape(-1))[segment]
        rank = segment % self.world
        found = rank * self.block + before.reshape(-1)[segment] + line
        return torch.where(inside, found, 0), inside
