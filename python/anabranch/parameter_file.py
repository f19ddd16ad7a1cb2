"""Moves tensors of a model into a mapped file. Pages that are not read take no memory; a
later read gets them from the disk."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Iterable

import torch
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

ALIGNMENT = 64

# The files of `move`, for `drop_all_pages`. Tensors keep a mapping alive.
_moved: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


class ParameterFile:
    """Tensors in a file without a name. The system removes the file when nothing maps it
    any more."""

    def __init__(self, tensors: Iterable[torch.Tensor], folder: str) -> None:
        """Tensors keep their values, shapes and strides, and those that share memory
        still do. Wrappers of other tensors and empty tensors stay where they are.
        OSError: the file cannot be written."""
        groups = list(_by_storage(tensors).values())
        places = []
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            for tensor, *_ in groups:
                file.seek(-(-file.tell() // ALIGNMENT) * ALIGNMENT)
                places.append(file.tell())
                file.write(memoryview(_bytes_of(tensor).numpy()))
            self.bytes = file.tell()
            file.flush()
            # The mapping is shared with the file, so a page that was written and then
            # dropped is kept.
            self.map = mmap.mmap(file.fileno(), self.bytes) if self.bytes else None
        for group, offset in zip(groups, places):
            count = group[0].untyped_storage().nbytes()
            memory = torch.frombuffer(
                self.map, dtype=torch.uint8, offset=offset, count=count
            )
            for tensor in group:
                place = (tensor.shape, tensor.stride(), tensor.storage_offset())
                tensor.data = memory.view(tensor.dtype).as_strided(*place)

    def drop_pages(self) -> None:
        """Gives back the memory of all pages. A page comes back when it is read."""
        if self.map is not None:
            _drop_pages(self.map)


def move(tensors: Iterable[torch.Tensor], folder: str) -> int:
    """Moves the tensors whose memory nothing else holds into a file in `folder`:
    another view of it would no longer see what is written to them. Returns how many
    bytes were moved. OSError: the file cannot be written."""
    sole = [
        tensor
        for group in _by_storage(tensors).values()
        if _holders(group[0]) == len(group)
        and not any(tensor.is_inference() for tensor in group)
        for tensor in group
    ]
    file = ParameterFile(sole, folder)
    if file.map is not None:
        _moved.add(file.map)
    return file.bytes


def drop_all_pages() -> None:
    """Gives back the memory of all pages of the files that `move` made."""
    for mapping in list(_moved):
        _drop_pages(mapping)


def _drop_pages(mapping: mmap.mmap) -> None:
    mapping.flush()
    mapping.madvise(mmap.MADV_DONTNEED)


def _by_storage(tensors: Iterable[torch.Tensor]) -> dict[int, list[torch.Tensor]]:
    """The tensors that can be moved, each once, by the memory that they view."""
    groups: dict[int, list[torch.Tensor]] = {}
    for tensor in {id(t): t for t in tensors}.values():
        if _has_memory(tensor):
            address = tensor.untyped_storage().data_ptr()
            groups.setdefault(address, []).append(tensor)
    return groups


def _has_memory(tensor: torch.Tensor) -> bool:
    """Whether the tensor has memory of its own, which `data` can replace."""
    if type(tensor) is not torch.Tensor and (
        not isinstance(tensor, torch.nn.Parameter)
        or is_lazy(tensor)
        or is_traceable_wrapper_subclass(tensor)
    ):
        return False
    return tensor.device.type == "cpu" and tensor.nbytes > 0


def _holders(tensor: torch.Tensor) -> int:
    """How many tensors view this memory."""
    storage = tensor.untyped_storage()
    return torch._C._storage_Use_Count(storage._cdata) - 1  # `storage` is one


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The whole memory that the tensor views."""
    return torch.tensor([], dtype=torch.uint8).set_(tensor.untyped_storage())
