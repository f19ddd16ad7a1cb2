"""Numbers of what holds the weights of a layer of bytes: another number, other weights.

The weights are in objects that nobody can write to, so they change only where a module
gets another object. Numbers are random: a module may come from a file that another
process wrote."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

from torch import nn

_NAME = "anabranch_version"
# The classes that hold weights, and their attribute that has them.
_HOLDERS = {
    "torch.ao.nn.quantized.modules.linear": ("LinearPackedParams", "_packed_params"),
    "torch.ao.nn.quantized.dynamic.modules.rnn": ("PackedParameter", "param"),
}
# It is apart from Python's own, whose numbers programs want to repeat.
_numbers = random.SystemRandom()


def watch() -> None:
    """From now on, modules that get other weights get another number."""
    for module, (kind, name) in _HOLDERS.items():
        holder = getattr(sys.modules[module], kind)
        if "__setattr__" not in vars(holder):
            holder.__setattr__ = _renumbering(holder.__setattr__, name)


def _renumbering(plain: Callable[..., None], weights: str) -> Callable[..., None]:
    def set_attribute(self: nn.Module, name: str, value: Any) -> None:
        plain(self, name, value)
        if name == weights:
            vars(self)[_NAME] = _numbers.getrandbits(63)

    return set_attribute


def number(holder: nn.Module) -> None:
    """Gives a module a number that has none: it has its weights for longer than this
    module is there."""
    vars(holder).setdefault(_NAME, _numbers.getrandbits(63))


def read(holder: Any) -> int:
    """The number of a module that has one. Dynamo guards a number that is used."""
    return +holder.anabranch_version
