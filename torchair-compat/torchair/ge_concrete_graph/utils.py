"""The older name of helpers for converters."""

from __future__ import annotations

from .._impl.compile.unsupported import dtype_promote, get_invalid_desc
from .._impl.ge.nodes import auto_convert_to_tensor

__all__ = [
    "auto_convert_to_tensor",
    "compat_as_bytes",
    "compat_as_bytes_list",
    "dtype_promote",
    "get_invalid_desc",
]


def compat_as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def compat_as_bytes_list(texts: list[str | bytes]) -> list[bytes]:
    return [compat_as_bytes(text) for text in texts]
