"""Has PyTorch trace equal layers of a model once.

A model is a list of layers of one class. Each call of a marked class is a region of the
graph: PyTorch traces the first one, and calls the same subgraph with the weights of the
others, as far as they are equal. It traces a layer that differs anew. Anabranch makes one
graph of all."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch
from torch import nn

_UNLIMITED = 1 << 30  # PyTorch refuses a model with more different layers than this


def mark(model: nn.Module) -> list[type[nn.Module]]:
    """Marks the classes of repeated layers, and returns them for `unmark`."""
    marked = []
    for kind in set(_repeated(model)):
        if not hasattr(kind.forward, "__marked_compile_region_fn__"):
            region = torch.compiler.nested_compile_region(
                kind.forward, max_reuse_entries=_UNLIMITED
            )
            kind.forward = functools.wraps(kind.forward)(region)
            marked.append(kind)
    return marked


def unmark(marked: list[type[nn.Module]]) -> None:
    """Has PyTorch trace each layer of these classes again."""
    for kind in marked:
        kind.forward = kind.forward.__marked_compile_region_fn__
    marked.clear()


def _repeated(module: nn.Module) -> Iterator[type[nn.Module]]:
    """The classes of layers that a list of layers has more than once. A region inside of
    a region saves nothing, so lists inside of such layers do not count."""
    for child in module.children():
        kinds = list(map(type, child)) if isinstance(child, nn.ModuleList) else []
        repeated = {kind for kind in kinds if kinds.count(kind) > 1}
        yield from repeated
        if not repeated:
            yield from _repeated(child)
