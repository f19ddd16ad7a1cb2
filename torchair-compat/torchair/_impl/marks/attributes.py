"""The attributes that scopes put on operators, by their names in dumps."""

from __future__ import annotations

import torch.fx

__all__ = ["FLAGS", "PREFIX", "STREAM", "SUPER", "scopes_of", "tag_of"]

# Keys of annotations that are attributes of scopes.
PREFIX = "torchair."
STREAM = "_user_stream_label"
# The keys whose values are booleans; those of others are text.
FLAGS = ("_enable_inner_parallel", "_op_exec_never_timeout")
SUPER = ("_super_kernel_scope", "_super_kernel_options")


def scopes_of(node: torch.fx.Node) -> dict[str, str]:
    """The attributes of all scopes around a node."""
    custom = node.meta.get("custom") or {}
    return {
        str(key).removeprefix(PREFIX): str(text)
        for key, text in custom.items()
        if str(key).startswith(PREFIX)
    }


def tag_of(node: torch.fx.Node) -> str | None:
    return scopes_of(node).get(STREAM)
