"""Seals the bytes of a saved graph, so that a process reads only what it can run.

A seal names the version, the compiler and the processor, and has a hash of the bytes.
It is read before the bytes are."""

from __future__ import annotations

from typing import Any

from .. import _C
from ..errors import SavedGraphError
from ..packages import cache

FORMAT = 1


def seal(content: bytes) -> dict[str, Any]:
    return _own() | {"hash": _C.hash_bytes(content), "content": content}


def unseal(sealed: dict[str, Any]) -> bytes:
    """The sealed bytes. SavedGraphError: they are damaged, or another version made
    them, or they are for another processor."""
    for name, own in _own().items():
        if (found := sealed.get(name)) != own:
            raise SavedGraphError(
                f"the saved graph is for another {name} ({found}; here it is {own});"
                " compile the model again"
            )
    content = sealed.get("content")
    if not isinstance(content, bytes) or _C.hash_bytes(content) != sealed["hash"]:
        raise SavedGraphError(
            "the saved graph is damaged (its hash differs); compile the model again"
        )
    return content


def _own() -> dict[str, Any]:
    processor, compiler, runtime = cache.identity()
    return {
        "format": FORMAT,
        "runtime": runtime,
        "compiler": compiler,
        "processor": processor,
    }
