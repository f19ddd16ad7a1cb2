"""Weights of a model: few bits for each, or none of them in memory."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from .. import parameter_file, scratch
from ..capture import kept_whole
from ..parameter_file import ParameterFile

__all__ = ["ParameterFile", "dequantized", "drop_moved_pages", "move_out_of_memory"]

dequantized = kept_whole.dequantized


def move_out_of_memory(tensors: Iterable[torch.Tensor]) -> int:
    """Moves the tensors that nothing else views into a file without a name, whose pages
    come back when they are read or written. Returns how many bytes were moved. OSError:
    the file cannot be written."""
    return parameter_file.move(tensors, scratch.place())


def drop_moved_pages() -> None:
    """Gives back the memory of the pages of all tensors that were moved."""
    parameter_file.drop_all_pages()
