"""Functions of torchair's interface that have no meaning on this host. Each error says
what to use instead."""

from __future__ import annotations

from collections import Counter
from typing import Any, NoReturn

from ..log import logger

__all__ = [
    "dtype_promote",
    "get_default_ge_graph",
    "get_invalid_desc",
    "next_unique_name",
    "patch_for_hcom",
]

_uses: Counter[str] = Counter()


def patch_for_hcom() -> None:
    """Does nothing: PyTorch's own collectives can be traced."""
    logger.warning("there is no need to call patch_for_hcom")


def next_unique_name(name: str, op: str | None = None) -> str:
    """The name, with a number after it if it was given before."""
    base = name or op or "node"
    _uses[base] += 1
    return base if _uses[base] == 1 else f"{base}_{_uses[base] - 1}"


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"torchair.ge_concrete_graph: {name}() edits a graph of IR nodes, and this host"
        " has none: torchair.ge's functions compute while the graph is traced"
    )


def get_default_ge_graph() -> NoReturn:
    """Always raises NotImplementedError."""
    _refuse("get_default_ge_graph")


def get_invalid_desc() -> NoReturn:
    """Always raises NotImplementedError."""
    _refuse("get_invalid_desc")


def dtype_promote(*_args: Any, **_options: Any) -> NoReturn:
    """Always raises NotImplementedError."""
    _refuse("dtype_promote")
