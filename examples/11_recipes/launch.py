"""Starts a script of the recipes with weights that matter, and with caches full of NaN.

The recipes' own random weights are all near 0, and they leave integers as they are. Here
each parameter has values of its own, the same in every process. A cache has no values
before the model writes them, so what reads one too many shows. The log ends with the CPU
time of a step of decode, which other processes of the host change less than its duration."""

from __future__ import annotations

import runpy
import statistics
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

import torch
from executor.core.kv_cache import cache_utils
from executor.core.model_worker import model_worker
from executor.model_loader import dummy_loader

import torch_npu  # noqa: F401 - the recipes name its devices and operators


def _values(name: str, like: torch.Tensor, seed: torch.Generator) -> torch.Tensor:
    """Random values for a parameter, so that activations stay near 1."""
    if not like.is_floating_point():
        return torch.randint(-7, 8, like.shape, generator=seed)
    wide = torch.randn(like.shape, generator=seed, dtype=torch.float32)
    if "scale" in name:
        return 0.005 + 0.001 * wide.abs()
    if like.dim() < 2:
        return (0.0 if "bias" in name else 1.0) + 0.1 * wide
    return wide * like.shape[-1] ** -0.5


def fill_weights(model: torch.nn.Module, *_: Any, **__: Any) -> None:
    """Stands for the recipes' `initialize_dummy_weights`."""
    for name, there in model.state_dict().items():
        seed = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        there.copy_(_values(name, there, seed).to(there.dtype))


def _without_values(
    allocate: Callable[..., torch.Tensor],
) -> Callable[..., torch.Tensor]:
    def allocated(*arguments: Any, **named: Any) -> torch.Tensor:
        cache = allocate(*arguments, **named)
        return (
            cache.fill_(float("nan")) if cache.is_floating_point() else cache.fill_(99)
        )

    return allocated


class _Clock:
    """Stands for the module `time` of the recipes' worker, which reads it before and after
    the model: notes the CPU time of all threads of this process, too."""

    def __init__(self) -> None:
        self.worked: list[float] = []

    def time(self) -> float:
        self.worked.append(time.process_time())
        return time.time()


def _timed(
    inference: Callable[..., Any], clock: _Clock, spent: list[float]
) -> Callable[..., Any]:
    """`inference`, which appends the CPU time of the model in each step of decode."""

    def step(
        worker: Any, model_inputs: Any, is_prefill: bool, is_mtp: bool = False
    ) -> Any:
        clock.worked.clear()
        made = inference(worker, model_inputs, is_prefill, is_mtp)
        if not is_prefill and not is_mtp:
            start, end = clock.worked
            spent.append(end - start)
        return made

    return step


def main() -> None:
    dummy_loader.initialize_dummy_weights = fill_weights
    cache_utils._alloc_aligned_hbm_tensor = _without_values(
        cache_utils._alloc_aligned_hbm_tensor
    )
    # A tiny model's operators are too small for more.
    torch.set_num_threads(1)
    spent: list[float] = []
    model_worker.time = clock = _Clock()
    worker = model_worker.ModelWorker
    worker.inference = _timed(worker.inference, clock, spent)
    script, sys.argv = sys.argv[1], sys.argv[1:]
    runpy.run_path(script, run_name="__main__")
    # The first steps compile.
    if later := spent[len(spent) // 2 :]:
        print(f"step of decode: {statistics.median(later) * 1000:.2f} ms of CPU time")


if __name__ == "__main__":
    main()
