"""Names process groups for packages.

PyTorch numbers groups in the order in which a process makes them. A package serves every
process that has such a group, whatever its number. So a package names a group by its
ranks: `ranks 0,1 #0` is the first group of the ranks 0 and 1."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

__all__ = ["portable_name", "with_local_name"]


def portable_name(group: Any) -> str:
    """The name of a group in a package. `group` is a group, or its name in this
    process."""
    if isinstance(group, str):
        group = dist.distributed_c10d._resolve_process_group(group)
    ranks = _ranks_of(group)
    return f"ranks {ranks} #{_groups_of(ranks).index(group)}"


def with_local_name(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a collective, whose last one names the group. A name from a
    package becomes the group's name in this process."""
    *values, name = args
    if not isinstance(name, str) or not name.startswith("ranks "):
        return args
    return (*values, _local_name(name))


def _local_name(name: str) -> str:
    _, ranks, number = name.split()
    alike = _groups_of(ranks)
    place = int(number.removeprefix("#"))
    if place >= len(alike):
        raise RuntimeError(
            f"this process has {len(alike)} process groups of the ranks {ranks}, and the"
            f" graph uses number {place} of them. Make the groups (init_process_group,"
            " init_device_mesh, new_group) before the call, as when it was compiled"
        )
    return alike[place].group_name


def _groups_of(ranks: str) -> list[Any]:
    """The groups of these ranks, in the order in which this process made them."""
    groups = dist.distributed_c10d._world.pg_map
    return [group for group in groups if _ranks_of(group) == ranks]


def _ranks_of(group: Any) -> str:
    return ",".join(map(str, dist.get_process_group_ranks(group)))
