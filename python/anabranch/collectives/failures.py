"""Adds to the error of a collective which call failed, and what other ranks may have
done. A backend's own message names neither."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch._ops import OpOverload

__all__ = ["explained"]


@contextlib.contextmanager
def explained(target: OpOverload, args: Sequence[Any]) -> Iterator[None]:
    """An error inside the block becomes a RuntimeError that names this collective, its
    arguments, its group and the rank."""
    try:
        yield
    except Exception as error:
        raise RuntimeError(
            f"the collective {_described(target, args)} failed: {error}\n  A rank that"
            " ended, that took longer than the group's timeout, or that called another"
            " collective or other sizes fails the others. TORCH_DISTRIBUTED_DEBUG=DETAIL"
            " compares what the ranks call."
        ) from error


def _described(target: OpOverload, args: Sequence[Any]) -> str:
    """The call as messages name it: all_reduce(f32[4, 64], 'sum') of the process group
    '0' on rank 1 of 2."""
    name = target._schema.name.partition("::")[2]
    *said, group = (_spelled(value) for value in args)
    text = f"{name}({', '.join(said)}) of the process group {group}"
    if not dist.is_initialized():
        return f"{text}, but torch.distributed is not initialised,"
    return f"{text} on rank {dist.get_rank()} of {dist.get_world_size()}"


def _spelled(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_spelled, value))}]"
    return getattr(value, "group_name", None) or repr(value)
