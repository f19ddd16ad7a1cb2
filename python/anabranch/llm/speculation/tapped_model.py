"""A model that tells hidden states, as heads read them.

transformers' own way, `output_hidden_states`, keeps hooks on the modules. A program whose
trace ran hooks has no place in the compile cache. Here the cache of keys and values, which
each layer gets, carries the states."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import Cache


class TappedCache(Cache):
    """A cache of one step, to which layers give the states that they read."""

    def __init__(self, layers: Any) -> None:
        super().__init__(layers=layers)
        self.states: list[torch.Tensor] = []


class Tap(nn.Module):
    """A layer that tells what it reads."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, state: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        for given in (*args, *kwargs.values()):
            if isinstance(given, TappedCache):
                given.states.append(state)
        return self.layer(state, *args, **kwargs)


def tapped(model: Any, numbers: Sequence[int]) -> Any:
    """A model with the same modules, whose layers of these numbers tell what they read.
    The caller's model stays as it is. ValueError: it has no plain list of layers."""
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    for name, layers in model.named_modules():
        if isinstance(layers, nn.ModuleList) and len(layers) == count:
            changed = [
                Tap(layer) if number in numbers else layer
                for number, layer in enumerate(layers)
            ]
            return _with(model, name.split("."), nn.ModuleList(changed))
    raise ValueError(f"{type(model).__name__} has no list of {count} layers")


def _with(module: nn.Module, path: list[str], new: nn.Module) -> nn.Module:
    """A copy of a module that has another one at this path."""
    if not path:
        return new
    made = copy.copy(module)
    inner = module._modules[path[0]]
    assert inner is not None
    made._modules = module._modules | {path[0]: _with(inner, path[1:], new)}
    return made
