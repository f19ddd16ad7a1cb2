"""Moves a model's parameters into a mapped file. Pages that nobody reads take no
memory; a later read gets them from the disk."""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import torch

ALIGNMENT = 64


class ParameterFile:
    """The parameters and buffers of a model, in a file without a name. The system
    removes the file when nothing maps it any more."""

    def __init__(self, model: Any, folder: str) -> None:
        """Tensors keep their values, shapes and strides, and those that share memory
        still do. OSError: the file cannot be written."""
        tensors = [
            tensor
            for tensor in (*model.parameters(), *model.buffers())
            if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.nbytes
        ]
        storages = {t.untyped_storage().data_ptr(): t for t in tensors}
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            places = {}
            for address, tensor in storages.items():
                file.seek(-(-file.tell() // ALIGNMENT) * ALIGNMENT)
                places[address] = file.tell()
                file.write(memoryview(_bytes_of(tensor).numpy()))
            self.bytes = file.tell()
            file.flush()
            # The mapping is shared with the file, so a page that was written and then
            # dropped is kept.
            self._map = mmap.mmap(file.fileno(), self.bytes) if self.bytes else None
        mapped = {
            address: torch.frombuffer(
                self._map,
                dtype=torch.uint8,
                offset=places[address],
                count=tensor.untyped_storage().nbytes(),
            )
            for address, tensor in storages.items()
        }
        for tensor in tensors:
            memory = mapped[tensor.untyped_storage().data_ptr()]
            place = (tensor.shape, tensor.stride(), tensor.storage_offset())
            tensor.data = memory.view(tensor.dtype).as_strided(*place)

    def drop_pages(self) -> None:
        """Gives back the memory of all pages. A page comes back when it is read."""
        if self._map is not None:
            self._map.flush()
            self._map.madvise(mmap.MADV_DONTNEED)


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The whole memory that the tensor views."""
    return torch.tensor([], dtype=torch.uint8).set_(tensor.untyped_storage())
