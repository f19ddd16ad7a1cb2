"""The key of the graphs that vLLM saves.

vLLM's key has a hash of all sources of PyTorch and the settings of PyTorch's compiler:
half a second of the worker's start. Anabranch's graphs depend on PyTorch's version and
on how it traces. `saved` seals them with Anabranch's own key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._functorch import config as tracing

from . import settings

Factors = Callable[[Any], list[Any]]


def join(caching: Any) -> None:
    """Has vLLM's module `caching` take the key of Anabranch's graphs from here."""
    theirs = caching.aot_compile_hash_factors
    if not hasattr(theirs, "anabranch_theirs"):
        caching.aot_compile_hash_factors = joined(theirs, caching)


def joined(theirs: Factors, caching: Any) -> Factors:
    """vLLM's function for graphs that Anabranch compiles, and for all others."""

    def factors(vllm_config: Any) -> list[Any]:
        if vllm_config.compilation_config.backend != settings.BACKEND:
            return theirs(vllm_config)
        of_pytorchs_compiler = caching.get_inductor_factors
        caching.get_inductor_factors = _of_anabranch
        try:
            return theirs(vllm_config)
        finally:
            caching.get_inductor_factors = of_pytorchs_compiler

    factors.anabranch_theirs = theirs  # type: ignore[attr-defined]
    return factors


def _of_anabranch() -> list[Any]:
    return [torch.__version__, tracing.save_config_portable()]
