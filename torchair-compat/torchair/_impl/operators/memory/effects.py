"""Functions of torch_npu without a result: they have an effect."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Iterator

import torch
from torch import Tensor

from ...errors import warn_once
from ..definition import npu_effect, npu_function

# For each path, the number of the next file.
_numbers: defaultdict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))


def _trace_save(self: Tensor, path: str) -> None:
    """Does nothing: a trace saves no tensor."""


@npu_effect(_trace_save)
def _save_tensor(self: Tensor, path: str) -> None:
    stem, ending = os.path.splitext(path)
    name = f"{stem}_device_0_{next(_numbers[path])}{ending or '.pt'}"
    torch.save(self.detach().clone(), name)


@npu_function
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


def _check_prefetch(max_size: int, offset: int) -> None:
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
    _check_prefetch(max_size, offset)


@npu_effect(_trace_prefetch)
def npu_prefetch(
    self: Tensor, dependency: Tensor | None, max_size: int, offset: int = 0
) -> None:
    """Has no effect: this host's caches fetch by themselves. ValueError: a size that is
    not positive, or a negative offset."""
    _check_prefetch(max_size, offset)
