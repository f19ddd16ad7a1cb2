"""Compiles programs in the background for a method that was read from the cache.

The entry keeps the description of the graph. A thread imports the compiler at the first
call of the symbolic program, so neither the start nor a call waits for it.
docs/design/shapes.md."""

from __future__ import annotations

import ctypes
import json
import marshal
import math
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ...packages import cache
from ..calling import Calling

if TYPE_CHECKING:
    from ...describe.description import Description

FILE = "tiers.bin"
# Constants of the graph that are not arguments.
MOST_BYTES = 64 << 20

# A tensor: its dtype, shape and bytes.
_Saved = tuple[str, tuple[int, ...], bytes]


def save(described: Description, places: Mapping[str, int]) -> dict[str, bytes]:
    """The contents of an entry's file; None for a graph without symbolic sizes.
    `places` says which arguments the frozen values are."""
    own = {n: value for n, value in described.constants.items() if n not in places}
    size = sum(value.numel() * value.element_size() for value in own.values())
    if not described.graph["symbols"] or size > MOST_BYTES:
        return {}
    frozen = {name: places[name] for name in described.constants if name in places}
    kept = {name: _save_tensor(value) for name, value in own.items()}
    return {FILE: marshal.dumps((json.dumps(described.graph), frozen, kept))}


def _save_tensor(value: torch.Tensor) -> _Saved:
    value = value.detach().contiguous()
    size = value.numel() * value.element_size()
    contents = ctypes.string_at(value.data_ptr(), size) if size else b""
    return str(value.dtype).removeprefix("torch."), tuple(value.shape), contents


def _load_tensor(saved: _Saved) -> torch.Tensor:
    dtype, shape, contents = saved
    if not math.prod(shape):
        return torch.empty(shape, dtype=getattr(torch, dtype))
    flat = torch.frombuffer(bytearray(contents), dtype=getattr(torch, dtype))
    return flat.reshape(shape)


def has_compiler() -> bool:
    return bool(cache.identity()[1])


class LaterTiers:
    """Watches an executable until its tiers are attached."""

    def __init__(
        self, executable: Any, saved: bytes, calling: Calling, config: Any
    ) -> None:
        self.executable = weakref.ref(executable)
        self.calling = calling
        self.config = config
        self.text, self.frozen, self.kept = marshal.loads(saved)
        self.values: dict[str, torch.Tensor] = {}
        self.begun = False

    def begin(self, arguments: Sequence[Any]) -> None:
        """Gets the arguments of the first call, frozen ones included."""
        executable = self.executable()
        if executable is None:
            return
        if not has_compiler():
            cache.warn_once(
                "tiers",
                'shapes="tiered" needs the compiler, which is not there: functions'
                " from the cache stay in their symbolic programs",
            )
            return
        self.values = {
            name: arguments[place].detach() for name, place in self.frozen.items()
        }
        executable.watch(self)

    def __call__(self, _: Sequence[Any], seconds: float, has_program: bool) -> None:
        """Called after a call that ran in the symbolic program."""
        if self.begun:
            return
        self.begun = True
        thread = threading.Thread(
            target=self._attach, name="anabranch-tiers-start", daemon=True
        )
        thread.start()

    def _attach(self) -> None:
        from ...describe.description import Description
        from ...packages import package
        from ...shapes import tiers

        executable = self.executable()
        if executable is None:
            return
        kept = {name: _load_tensor(saved) for name, saved in self.kept.items()}
        described = Description(
            json.loads(self.text),
            self.values | kept,
            self.calling.arguments,
            self.calling.passed,
            self.calling.copied,
            self.calling.views,
            [],
        )
        tiers.attach(executable, described, self.config, package.specialise)
