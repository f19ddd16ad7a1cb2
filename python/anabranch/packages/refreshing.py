"""anabranch.refresh: sees writes to weights that PyTorch does not count.

Programs that packed weights notice a write by the version that PyTorch counts. Writes
through `.data`, NumPy or another process leave it alone. `refresh` compares the values
with hashes of what was packed, packs what changed, and counts the write."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .. import _C
from ..describe.description import Description

_known: weakref.WeakSet[Packed] = weakref.WeakSet()


class Packed:
    """The weights that one program was made with. The program holds this object."""

    def __init__(
        self,
        tensors: Sequence[torch.Tensor],
        hashes: Sequence[str],
        pack_again: Callable[[], object],
        owner: torch.nn.Module | None = None,
    ) -> None:
        """`pack_again` packs the present values, or has the next call do it. A program
        whose calls do not look for a parameter in the place of another names the
        `owner` of its weights."""
        self.owner = (lambda: None) if owner is None else weakref.ref(owner)
        self.references = [weakref.ref(tensor) for tensor in tensors]
        self.hashes = list(hashes)
        self.pack_again = pack_again
        _known.add(self)

    def pairs(self) -> Iterator[tuple[torch.Tensor, str]]:
        """The weights that still exist, each with the hash of what was packed."""
        for reference, known in zip(self.references, self.hashes):
            if (tensor := reference()) is not None:
                yield tensor, known


def refresh(target: Any) -> list[str]:
    """Makes programs use the present values of a module's parameters and buffers.

    Frozen weights whose values changed are packed and folded now, without a trace and
    without compiling kernels. Each program changes between two calls. Watched weights
    are packed at the next call, and a method of `cache_compile` that froze a changed
    weight is compiled at its next call. Exported packages keep their values.

    target  an nn.Module, what torch.compile or anabranch.compile made of one, or a
            method of one

    Returns the names of the frozen weights whose values had changed. TypeError: `target`
    is none of these. FrozenWeightError: a weight was freed, or has other sizes.
    """
    module = module_of(target, "refresh")
    named = {id(t): name for name, t in tensors_of(module)}
    hash_of = functools.cache(hash_value)
    changed: set[int] = set()
    same: set[int] = set()
    again: list[Packed] = []
    for packed in list(_known):
        pairs = [pair for pair in packed.pairs() if id(pair[0]) in named]
        stale = {id(tensor) for tensor, known in pairs if hash_of(tensor) != known}
        changed |= stale
        same |= {id(tensor) for tensor, _ in pairs} - stale
        replaced = packed.owner() is module and len(pairs) < len(packed.references)
        if stale or replaced:
            again.append(packed)
    _count_writes([t for _, t in tensors_of(module) if id(t) not in same - changed])
    for packed in again:
        packed.pack_again()
    return [named[id(t)] for _, t in tensors_of(module) if id(t) in changed]


def hash_value(tensor: torch.Tensor) -> str:
    return _C.hash_tensor(tensor.detach().contiguous())


def owner_hashes(described: Description) -> list[str]:
    """Hashes of the constants that are copies of the user's tensors. The description
    keeps them, so that the values are read once."""
    for name in described.owners:
        if name not in described.hashes:
            described.hashes[name] = hash_value(described.constants[name])
    return [described.hashes[name] for name in described.owners]


def module_of(target: Any, caller: str) -> torch.nn.Module:
    """The module that a caller takes. TypeError: it is none."""
    if isinstance(target, types.MethodType):
        target = target.__self__
    target = getattr(target, "_orig_mod", target)
    if not isinstance(target, torch.nn.Module):
        raise TypeError(
            f"{caller} takes a module, what torch.compile made of one, or a method of"
            f" one; got {type(target).__name__}"
        )
    return target


def tensors_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """The parameters and buffers of a module, with their names."""
    yield from module.named_parameters()
    yield from module.named_buffers()


def _count_writes(tensors: Sequence[torch.Tensor]) -> None:
    """Counts a write to each tensor, as PyTorch does. Tensors that were made in
    inference mode have no count."""
    counting = tuple(tensor for tensor in tensors if not tensor.is_inference())
    versions = tuple(tensor._version + 1 for tensor in counting)
    torch._C._autograd._unsafe_set_version_counter(counting, versions)
