"""Pools, snapshots, weak references and random states: those of the host's memory."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..device.names import host_device
from ..device.tape import TaskGroup

_numbers = itertools.count(1)

# What torch.npu.graph_task_group_end returns.
TaskGroupHandle = TaskGroup


class MemPool:
    """A pool that tensors may be allocated in. On this host it has a number only."""

    def __init__(self, allocator: Any = None, **_: Any) -> None:
        self.allocator = allocator
        self.id = (0, next(_numbers))

    def use_count(self) -> int:
        return 1

    def snapshot(self) -> list[Any]:
        return []


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """Tensors of the block are allocated as outside of it. TypeError: it is no pool."""
    if not isinstance(pool, MemPool):
        raise TypeError(f"pool must be a torch.npu.MemPool, got {pool!r}")
    yield


def empty_with_swapped_memory(
    size: Sequence[int], dtype: torch.dtype | None = None, device: Any = None
) -> torch.Tensor:
    """torch.empty: memory of the host is what an NPU would swap to."""
    return torch.empty(size, dtype=dtype, device=host_device(device))


def memory_snapshot(mempool_id: Any = None) -> list[Any]:
    return []


def weak_ref_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor over the same memory, without its graph of gradients."""
    return tensor.detach()


def launch_host_func(stream: Any, function: Callable[..., Any], data: Any) -> None:
    """Calls `function(data)`."""
    function(data)


def get_rng_state(device: Any = None) -> torch.Tensor:
    return torch.get_rng_state()


def get_rng_state_all() -> list[torch.Tensor]:
    return [torch.get_rng_state()]


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    torch.set_rng_state(new_state)


def set_rng_state_all(new_states: Sequence[torch.Tensor]) -> None:
    """The state of the process's device, which is the first."""
    for state in new_states[:1]:
        torch.set_rng_state(state)
