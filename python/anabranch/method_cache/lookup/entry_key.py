"""Makes the key of a method's entry: one hash of everything that the entry depends on.
docs/design/cache.md lists the parts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from ...packages import cache
from ..bytecode import code_digest
from ..policy import CachePolicy
from .global_state import global_state


def entry_key(policy: CachePolicy, args: Any, kwargs: Any) -> str:
    """The key for a first call with these arguments."""
    function, module = policy.method.__func__, policy.method.__self__
    kind = type(module)
    return cache.digest(
        cache.FORMAT,
        cache.identity(),
        cache.own_sources(),
        [sys.version, torch.__version__],
        [kind.__module__, kind.__qualname__, policy.name, str(module)],
        code_digest(function.__code__),
        _forward_digests(module),
        policy.settings(),
        [policy.dynamic, policy.process(), policy.shapes_key(args, kwargs)],
        str(global_state()),
        sorted(
            [str(operator), _function_digest(function)]
            for operator, function in policy.decompositions.items()
        ),
    )


def _forward_digests(module: Any) -> list[tuple[str, str, str]]:
    """Hashes of the `forward` of each class of the module's parts. A program may
    replace a class's `forward`, which no source file and no guard shows."""
    kinds = {type(part) for part in module.modules()}
    return sorted(
        (kind.__module__, kind.__qualname__, _function_digest(kind.forward))
        for kind in kinds
    )


def _function_digest(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return code_digest(code) if code else getattr(function, "__qualname__", "")
