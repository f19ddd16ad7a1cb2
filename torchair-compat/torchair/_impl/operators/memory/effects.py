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
_numbers: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)


def _trace_save(
    tensors: list[Tensor], path: str, overwrite: bool, single: bool
) -> None:
    """Does nothing: a trace saves no tensor."""


@npu_effect(_trace_save)
def _save_tensors(
    tensors: list[Tensor], path: str, overwrite: bool, single: bool
) -> None:
    stem, ending = os.path.splitext(path)
    number = "" if overwrite else f"_{next(_numbers[path])}"
    copies = [tensor.detach().clone() for tensor in tensors]
    saved = copies[0] if single else copies
    torch.save(saved, f"{stem}_device_0{number}{ending or '.pt'}")


@npu_function
def save_npugraph_tensor(
    input: Tensor | list[Tensor], save_path: str | None = None, overwrite: bool = False
) -> None:
    """Saves a tensor, or a list of tensors, to `<stem>_device_0_<n>.pt`, for torch.load. In
    a graph it is saved each time that the graph runs; n counts the runs from 0.

    save_path  its folder must exist; None: tensor.pt in the current folder
    overwrite  saves to `<stem>_device_0.pt`, over an earlier file

    TypeError: an input that is no tensor, and no list of tensors.
    """
    single = isinstance(input, Tensor)
    tensors = [input] if isinstance(input, Tensor) else list(input)
    if not tensors or not all(isinstance(one, Tensor) for one in tensors):
        raise TypeError(
            "save_npugraph_tensor: input must be a tensor or a list of them"
        )
    path = "tensor.pt" if save_path is None else save_path
    torch.ops.npu._save_tensors(tensors, path, overwrite, single)


def _trace_print(self: Tensor, tensor_name: str | None = None) -> None:
    """Does nothing: a trace prints no tensor."""


@npu_effect(_trace_print)
def print_npugraph_tensor(self: Tensor, tensor_name: str | None = None) -> None:
    """Prints a tensor as Python does. In a graph it is printed each time that the graph
    runs.

    tensor_name  stands before the tensor, with a colon
    """
    text = "" if tensor_name is None else f"{tensor_name}:\n"
    print(f"{text}{self.detach()}", flush=True)


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
