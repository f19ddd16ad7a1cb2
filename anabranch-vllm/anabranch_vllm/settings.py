"""Anabranch's settings of vLLM's compilation, and the environment's defaults."""

from __future__ import annotations

import os
import sys
from enum import IntEnum
from pathlib import Path
from typing import Any, Protocol

BACKEND = "anabranch_vllm.backend.compile_graph"
WORKER = "anabranch_vllm.cpu_worker.AnabranchWorker"
# Backends that leave the choice to the platform: vLLM's default, and our own names.
_OPEN = ("", "inductor", "anabranch", BACKEND)


class Mode(IntEnum):
    """vLLM's compilation modes that this package tells apart."""

    NONE = 0
    TRACE_ONCE = 2
    VLLM = 3


class Compilation(Protocol):
    """The fields of vLLM's CompilationConfig that this package reads and sets."""

    mode: int | None
    backend: str
    custom_ops: list[str]


def chooses_anabranch(compilation: Compilation) -> bool:
    """Whether Anabranch compiles the model. vLLM's default mode means its platform's
    compiler. Another mode or backend that the user names is kept."""
    if compilation.mode == Mode.VLLM:
        return compilation.backend in _OPEN
    return compilation.mode == Mode.TRACE_ONCE and compilation.backend in (
        "anabranch",
        BACKEND,
    )


def apply(compilation: Compilation) -> None:
    """Has vLLM trace the model once, and Anabranch compile the whole graph."""
    compilation.mode = type(compilation.mode)(Mode.TRACE_ONCE)  # type: ignore[misc, call-arg]
    compilation.backend = BACKEND
    show_operators(compilation)


def show_operators(compilation: Compilation) -> None:
    """Keeps norms and rotations visible to the compiler. vLLM calls kernels of its own
    for them if the backend has another name than its own compiler's. Kernels that the
    user names (`+rms_norm`) stay."""
    compilation.custom_ops = [
        "none" if name == "all" else name for name in compilation.custom_ops
    ]


def rotate_in_pytorch(compilation: Compilation) -> None:
    """Leaves rotations to PyTorch in a model with latent attention (MLA) that is not
    compiled. Its rows lie apart in memory, and vLLM's kernel turns wrong ones."""
    if not {"+rotary_embedding", "-rotary_embedding"} & set(compilation.custom_ops):
        compilation.custom_ops.append("-rotary_embedding")


def set_environment() -> None:
    """Sets the defaults of this process and of the workers that it starts.

    A name of a layer is a string and no object: programs pass strings to operators, and
    a graph with such an object would be cut at each layer. The compile cache lies in
    vLLM's cache root."""
    if os.environ.setdefault("VLLM_USE_LAYERNAME", "0") == "0":
        _use_strings()
    os.environ.setdefault("ANABRANCH_CACHE_HOME", str(_cache_root() / "anabranch"))


def kept_programs() -> Path:
    """The folder of programs that no graph of vLLM has, beside the graphs it saves."""
    return _cache_root() / "torch_compile_cache" / "anabranch"


def moves_weights() -> bool:
    """Whether weights that programs pack move out of memory: unless
    ANABRANCH_VLLM_MOVE_WEIGHTS is "0"."""
    return os.environ.get("ANABRANCH_VLLM_MOVE_WEIGHTS") != "0"


def _use_strings() -> None:
    """Follows VLLM_USE_LAYERNAME=0 where vLLM has read the variable already, and no
    layer yet."""
    module: Any = sys.modules.get("vllm.utils.torch_utils")
    if module is not None and hasattr(module, "_USE_LAYERNAME"):
        module._USE_LAYERNAME = False
        module.LayerNameType = str


def _cache_root() -> Path:
    return Path(os.environ.get("VLLM_CACHE_ROOT") or _cache_home() / "vllm")


def _cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
