"""The older place of a helper for text attributes."""

from __future__ import annotations

__all__ = ["compat_as_bytes", "compat_as_bytes_list"]


def compat_as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def compat_as_bytes_list(texts: list[str | bytes]) -> list[bytes]:
    return [compat_as_bytes(text) for text in texts]
