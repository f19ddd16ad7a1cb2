"""Functions of torch_npu without a result: they have an effect."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.fx.node import has_side_effect

from ..errors import warn_once
from .library import LIBRARY

__all__ = ["npu_prefetch", "save_npugraph_tensor"]

# For each path, the number of the next file.
_numbers: defaultdict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))


def _save(tensor: Tensor, path: str) -> None:
    stem, ending = os.path.splitext(path)
    name = f"{stem}_device_0_{next(_numbers[path])}{ending or '.pt'}"
    torch.save(tensor.detach().clone(), name)


def _traced(tensor: Tensor, path: str) -> None:
    """Does nothing: a trace saves no tensor."""


LIBRARY.define("_save_tensor(Tensor self, str path) -> ()")
LIBRARY.impl("_save_tensor", _save, "CompositeExplicitAutograd")
torch.library.register_fake("npu::_save_tensor", _traced, lib=LIBRARY)
has_side_effect(torch.ops.npu._save_tensor.default)


def save_npugraph_tensor(tensor: Tensor, *, save_path: str | None = None) -> None:
    """Saves the tensor to `<stem>_device_0_<n>.pt`. In a graph it is saved each time
    that the graph runs; n counts the runs.

    save_path  ends with .pt or has no suffix; None: npugraph_tensor_....pt in the
               current folder

    ValueError: another end.
    """
    path = "npugraph_tensor.pt" if save_path is None else save_path
    if os.path.splitext(path)[1] not in ("", ".pt"):
        raise ValueError(f"save_path must end with .pt, got {path!r}")
    torch.ops.npu._save_tensor(tensor, path)


def _prefetch(
    self: Tensor, dependency: Tensor | None, max_size: int, offset: int = 0
) -> None:
    if max_size <= 0:
        raise ValueError(f"npu_prefetch: max_size should be positive, got {max_size}")
    if offset < 0:
        raise ValueError(f"npu_prefetch: offset should not be negative, got {offset}")
    warn_once("npu_prefetch has no effect on this host")


def _trace_prefetch(
    self: Tensor, dependency: Tensor | None, max_size: int, offset: int = 0
) -> None:
    if dependency is None:
        raise NotImplementedError(
            "npu_prefetch: a graph needs a dependency, after which to fetch"
        )
    _prefetch(self, dependency, max_size, offset)


LIBRARY.define(
    "npu_prefetch(Tensor self, Tensor? dependency, int max_size, int offset=0) -> ()"
)
LIBRARY.impl("npu_prefetch", _prefetch, "CompositeExplicitAutograd")
torch.library.register_fake("npu::npu_prefetch", _trace_prefetch, lib=LIBRARY)
has_side_effect(torch.ops.npu.npu_prefetch.default)


def npu_prefetch(
    self: Tensor, dependency: Tensor | None, max_size: int, offset: int = 0
) -> None:
    """Has no effect: this host's caches fetch by themselves. ValueError: a size that is
    not positive, or a negative offset."""
    torch.ops.npu.npu_prefetch(self, dependency, max_size, offset)
