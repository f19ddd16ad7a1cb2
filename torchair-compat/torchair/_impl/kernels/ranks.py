"""Finds the processes of one host that compile together, and lets them wait for each
other."""

from __future__ import annotations

import dataclasses
import os

import torch.distributed as dist

from ..errors import warn_once


@dataclasses.dataclass(frozen=True)
class Ranks:
    rank: int = 0
    world: int = 1
    local_world: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the first rank of its host."""
        return self.rank % self.local_world == 0

    def exchange(self, text: str) -> list[str]:
        """Gathers a text of each rank of this host. Waits for all ranks."""
        if self.world == 1:
            return [text]
        found: list[str] = [""] * self.world
        dist.all_gather_object(found, text)
        first = self.rank // self.local_world * self.local_world
        return found[first : first + self.local_world]

    def wait(self) -> None:
        if self.world > 1:
            dist.barrier()


def find_ranks() -> Ranks | None:
    """The ranks of this program. None, with a warning: there are several processes, and
    the environment does not say how many are on this host."""
    if not (dist.is_available() and dist.is_initialized()):
        return Ranks()
    world = dist.get_world_size()
    if world <= 1:
        return Ranks()
    text = os.environ.get("LOCAL_WORLD_SIZE")
    if text is None:
        warn_once(
            "'LOCAL_WORLD_SIZE' is not set in a multi-card context: static kernels"
            " are not compiled"
        )
        return None
    try:
        local = int(text)
    except ValueError:
        raise RuntimeError(f"LOCAL_WORLD_SIZE must be an integer: {text!r}") from None
    if local <= 0:
        raise RuntimeError(f"LOCAL_WORLD_SIZE must be above zero: {local}")
    if world % local:
        raise RuntimeError(
            f"the world size {world} is not divisible by LOCAL_WORLD_SIZE {local}"
        )
    return Ranks(dist.get_rank(), world, local)
