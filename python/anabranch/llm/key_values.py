"""The static cache of keys and values that compiled steps update in place."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from transformers.cache_utils import (
    Cache,
    StaticCache,
    StaticLayer,
    StaticSlidingWindowLayer,
)


@dataclasses.dataclass(frozen=True)
class LayerShape:
    """What one layer keeps of each token of each row."""

    heads: int
    key_size: int
    value_size: int
    dtype: torch.dtype

    def token_bytes(self) -> int:
        return self.heads * (self.key_size + self.value_size) * self.dtype.itemsize


class KeyValues:
    """Makes caches for one model, of `capacity` tokens a row."""

    def __init__(self, model: Any, capacity: int) -> None:
        self.capacity = capacity
        self.layers = _layer_shapes(model)

    def make(self, rows: int) -> Cache:
        """An empty cache. Layers with a sliding window keep all tokens too: the mask
        hides what left the window, and a token's place never moves."""
        cache = Cache(layers=[StaticLayer(self.capacity) for _ in self.layers])
        for layer, shape in zip(cache.layers, self.layers):
            size = (rows, shape.heads, 0)
            layer.lazy_initialization(
                torch.empty((*size, shape.key_size), dtype=shape.dtype),
                torch.empty((*size, shape.value_size), dtype=shape.dtype),
            )
        return cache

    def fits(self, cache: Any) -> bool:
        """Whether `make` could have made it."""
        layers = getattr(cache, "layers", [])
        return len(layers) == len(self.layers) and all(
            type(layer) is StaticLayer
            and layer.is_initialized
            and layer.max_cache_len == self.capacity
            for layer in layers
        )

    def bytes(self, rows: int) -> int:
        tokens = rows * self.capacity
        return tokens * sum(layer.token_bytes() for layer in self.layers)


def rewind(cache: Cache, tokens: int) -> None:
    """Forgets the last tokens. Later ones overwrite their keys and values, which the
    mask hides until then."""
    for layer in cache.layers:
        layer.cumulative_length.sub_(tokens)


@torch.no_grad()
def _layer_shapes(model: Any) -> list[LayerShape]:
    """What one token leaves in each layer: the model is asked, since configurations
    spell it in many ways."""
    config = model.config.get_text_config(decoder=True)
    kinds = {type(layer) for layer in StaticCache(config, max_cache_len=1).layers}
    if not kinds <= {StaticLayer, StaticSlidingWindowLayer}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(
            f"{type(model).__name__} keeps a state that is no plain cache of keys and"
            f" values ({names}): call its generate() with compile_config instead"
        )
    probe = Cache(layers=[StaticLayer(1) for _ in range(config.num_hidden_layers)])
    model(torch.zeros((1, 1), dtype=torch.long), past_key_values=probe, use_cache=True)
    if not all(layer.is_initialized for layer in probe.layers):
        raise ValueError(
            f"{type(model).__name__} does not fill a static cache of transformers:"
            " call its generate() with compile_config instead"
        )
    return [
        LayerShape(
            layer.num_heads, layer.k_head_dim, layer.v_head_dim, layer.keys.dtype
        )
        for layer in probe.layers
    ]
