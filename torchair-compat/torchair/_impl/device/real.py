"""Refuses to replace a real torch_npu."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import sys

import torch

__all__ = ["refuse_real"]

_ADVICE = (
    "torchair-compat is for hosts without an NPU and never hides a real torch_npu;"
    " uninstall one of the two"
)


def refuse_real() -> None:
    """ImportError: a real torch_npu is installed, importable or loaded."""
    if found := _installed() or _importable() or _loaded():
        raise ImportError(f"{found}: {_ADVICE}")


def _installed() -> str | None:
    try:
        version = importlib.metadata.version("torch-npu")
    except importlib.metadata.PackageNotFoundError:
        return None
    return f"torch-npu {version} is installed"


def _importable() -> str | None:
    """Whether a real torch_npu can be imported: it is a package, ours is a module. Any
    place on the path counts, not only the first."""
    for entry in sys.path:
        spec = importlib.machinery.PathFinder.find_spec("torch_npu", [entry])
        if spec and spec.submodule_search_locations is not None:
            return f"there is a torch_npu in {entry or '.'}"
    return None


def _loaded() -> str | None:
    if torch._C._get_privateuse1_backend_name() == "npu":
        return "the device type 'npu' is registered with PyTorch"
    return None
