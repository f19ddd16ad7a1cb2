"""Operators that a test defines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def define(
    library: torch.library.Library, schema: str, fake: Callable[..., Any]
) -> Any:
    """An operator of the library that has a shape function, and no kernel."""
    library.define(schema)
    name = schema.partition("(")[0]
    torch.library.register_fake(f"{library.ns}::{name}", fake, lib=library)
    return getattr(getattr(torch.ops, library.ns), name)
