"""Keeps PyTorch's operators between two steps in the calling thread.

A parallel operator of PyTorch leaves OpenMP's threads spinning for some milliseconds.
They take the CPUs from the workers of the step that follows, which costs more than the
operator gained."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Iterator
from typing import Any

import torch
from transformers.generation import logits_process
from transformers.generation.logits_process import (
    UnbatchedClassifierFreeGuidanceLogitsProcessor,
)

# Elements that gain more by several threads than the next step loses.
LARGE = 1 << 20


@contextlib.contextmanager
def one_thread(scores: torch.Tensor) -> Iterator[None]:
    """Operators on these scores, inside the scope, use no other thread. Nothing changes
    for operators of other threads, nor for large scores."""
    library, threads = _openmp(), torch.get_num_threads()
    if library is None or threads == 1 or scores.numel() > LARGE:
        yield
        return
    # torch.set_num_threads would tell threads that begin meanwhile, which would keep it.
    library.omp_set_num_threads(1)
    try:
        yield
    finally:
        library.omp_set_num_threads(threads)


def is_light(processor: Any) -> bool:
    """Whether a processor of logits computes little besides the scores: those of users
    may do anything."""
    kind = type(processor)
    known = kind.__module__ == logits_process.__name__ or kind.__module__.startswith(
        __package__ or ""
    )
    return known and kind is not UnbatchedClassifierFreeGuidanceLogitsProcessor


@functools.cache
def _openmp() -> Any:
    """The OpenMP library that PyTorch uses; None if it uses none."""
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    try:
        library = ctypes.CDLL(os.path.join(folder, "libtorch_cpu.so"))
        assert library.omp_set_num_threads
    except (OSError, AttributeError):
        return None
    return library
