"""Makes the static cache of keys and values that compiled steps update in place."""

from __future__ import annotations

import contextlib
import dataclasses
import weakref
from collections.abc import Callable
from typing import Any

import torch
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    StaticCache,
    StaticLayer,
    StaticSlidingWindowLayer,
)

from . import kept_states
from .kept_states import Kept

# The tokens that a model is asked about, and the most room of the cache for them: more
# than a window of GPT-Neo has.
PROBE_TOKENS, PROBE_LENGTH = 3, 512
# The relative difference of logits that rounding may make in a deep model: at least
# the first, and so many times that of one rounding.
LEAST_DIFFERENCE, MOST_ROUNDINGS = 1e-3, 32


@dataclasses.dataclass(frozen=True)
class LayerShape:
    """The keys and values that one layer keeps for each token of each row."""

    heads: int
    key_size: int
    value_size: int
    dtype: torch.dtype  # in which the model computes them
    # of the numbers that are kept, with scales; None: `dtype`, without
    stored: torch.dtype | None = None

    def empty(self, *size: int) -> tuple[Kept, Kept]:
        """Keys and values [*size, their size], of zeros."""
        keys = kept_states.empty((*size, self.key_size), self.dtype, self.stored)
        values = kept_states.empty((*size, self.value_size), self.dtype, self.stored)
        return keys, values

    def token_bytes(self) -> int:
        sizes = (self.key_size, self.value_size)
        return self.heads * sum(
            kept_states.row_bytes(size, self.dtype, self.stored) for size in sizes
        )


class Layer(StaticLayer):
    """A static layer that forgets its last tokens when generate() asks for it, as
    assisted decoding does. Later tokens overwrite them; until then the mask hides them.
    """

    is_croppable = True

    def lazy_initialization(
        self, key_states: torch.Tensor, value_states: torch.Tensor
    ) -> None:
        """Allocates room for one token more than the capacity. So no step reads the
        whole tensor, the strides are the same for all lengths, and one program serves
        them."""
        self.max_cache_len += 1
        super().lazy_initialization(key_states, value_states)
        self.max_cache_len -= 1

    def write(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Appends states [rows, heads, tokens, size]."""
        super().update(key_states, value_states)

    def read(
        self, length: int, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The keys and values of the first tokens, for a model that computes in
        `dtype`."""
        return self.keys[:, :, :length], self.values[:, :, :length]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns what masks are made for: the tensors without their free room."""
        self.write(key_states, value_states)
        return self.read(self.max_cache_len, key_states.dtype)

    def crop(self, tokens_to_remove: int) -> None:
        self.cumulative_length.sub_(abs(tokens_to_remove))

    def pair(self) -> tuple[Kept, Kept]:
        """What is kept as keys, and as values."""
        return (self.keys,), (self.values,)

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """The tensors that keep something of each token, [rows, heads, tokens, any size]."""
        keys, values = self.pair()
        return *keys, *values

    def clear(self, tokens: int) -> None:
        """Forgets all tokens, which were the first ones of each row."""
        for tensor in self.tensors():
            tensor[:, :, :tokens].zero_()
        self.cumulative_length.zero_()


class LayerOfBytes(Layer):
    """A layer whose keys and values are numbers of eight bits with scales."""

    def __init__(self, max_cache_len: int, stored: torch.dtype) -> None:
        super().__init__(max_cache_len)
        self.stored = stored

    def lazy_initialization(
        self, key_states: torch.Tensor, value_states: torch.Tensor
    ) -> None:
        super().lazy_initialization(
            key_states.to(self.stored), value_states.to(self.stored)
        )
        self.key_scales, self.value_scales = (
            torch.zeros((*kept.shape[:-1], 1)) for kept in (self.keys, self.values)
        )

    def write(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        count = key_states.shape[-2]
        at = torch.arange(count) + self.cumulative_length
        self.cumulative_length.add_(count)
        kept_states.write((self.keys, self.key_scales), 2, at, key_states)
        kept_states.write((self.values, self.value_scales), 2, at, value_states)

    def read(
        self, length: int, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        def first(kept: torch.Tensor) -> torch.Tensor:
            return kept[:, :, :length]

        keys = kept_states.read((self.keys, self.key_scales), dtype, first)
        values = kept_states.read((self.values, self.value_scales), dtype, first)
        return keys, values

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        super().reorder_cache(beam_idx)
        self.key_scales = self.key_scales.index_select(0, beam_idx)
        self.value_scales = self.value_scales.index_select(0, beam_idx)

    def pair(self) -> tuple[Kept, Kept]:
        return (self.keys, self.key_scales), (self.values, self.value_scales)


class Beginning(Layer):
    """The first `length` tokens of a layer, the step's own among them."""

    def __init__(self, whole: Layer, length: int) -> None:
        # This layer has no tensors of its own: it writes to those of `whole`.
        self.__dict__.update(whole.__dict__)
        self.whole, self.length = whole, length

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.whole.write(key_states, value_states)
        return self.whole.read(self.length, key_states.dtype)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length, 0


class PlacedLayer(CacheLayerMixin):
    """A layer over memory of its maker. Positions and masks say which part is in use. A
    step reads `length` tokens of each row."""

    is_compileable = True
    is_sliding = False

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length
        self.is_initialized = True

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length, 0

    def get_seq_length(self) -> int:
        return 0

    def get_max_length(self) -> int:
        return self.length

    def lazy_initialization(
        self, key_states: torch.Tensor, value_states: torch.Tensor
    ) -> None:
        """Does nothing: the memory exists from the beginning."""


class StateLayer(PlacedLayer):
    """A layer [rows, heads, tokens, size] whose callers say where a step's tokens lie: it
    writes at `positions`, and reads the first `length` tokens; None: all."""

    def __init__(
        self,
        keys: Kept,
        values: Kept,
        positions: torch.Tensor,
        length: int | None = None,
    ) -> None:
        super().__init__(keys[0].shape[2] if length is None else length)
        self.kept, self.positions = (keys, values), positions
        self._reads_all = length is None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = map(self._update, self.kept, (key_states, value_states))
        return keys, values

    def _update(self, kept: Kept, states: torch.Tensor) -> torch.Tensor:
        kept_states.write(kept, 2, self.positions, states)
        return kept_states.read(kept, states.dtype, self._first)

    def _first(self, kept: torch.Tensor) -> torch.Tensor:
        return kept if self._reads_all else kept[:, :, : self.length]


class KeyValueCache(Cache):
    """A cache that KeyValues made."""

    capacity: int
    shapes: list[LayerShape]
    memory: CacheMemory


class CacheMemory:
    """The layers of a cache, which outlive it."""

    def __init__(self, layers: list[Layer], rows: int) -> None:
        self.layers, self.rows = layers, rows
        # No step wrote a token at this position or a later one.
        self.written = 0
        self._cache: Callable[[], KeyValueCache | None] = lambda: None

    def cache(self, capacity: int, shapes: list[LayerShape]) -> KeyValueCache:
        """A cache over this memory."""
        made = KeyValueCache(layers=self.layers)
        made.capacity, made.shapes, made.memory = capacity, shapes, self
        self._cache = weakref.ref(made)
        return made

    def in_use(self) -> bool:
        """Whether a caller still has the cache."""
        return self._cache() is not None

    def will_write(self, end: int) -> None:
        """A step writes tokens before this position."""
        self.written = max(self.written, end)

    def clear(self) -> None:
        """Makes the memory what it was when it was new."""
        for layer in self.layers:
            layer.clear(self.written)
        self.written = 0


class KeyValues:
    """Makes caches for one model, with room for `capacity` tokens in each row. The
    memory of the last one is kept for the next: new memory costs a page fault for each
    4 KiB."""

    def __init__(
        self, model: Any, capacity: int, stored: torch.dtype | None = None
    ) -> None:
        self.capacity, self.stored = capacity, stored
        shapes = _layer_shapes(model, max(PROBE_TOKENS, min(capacity, PROBE_LENGTH)))
        self.layers = [dataclasses.replace(shape, stored=stored) for shape in shapes]
        self._spare: list[CacheMemory] = []

    def take(self, rows: int) -> CacheMemory:
        """Empty memory for this many rows."""
        with contextlib.suppress(IndexError):  # Another thread may take it first.
            memory = self._spare.pop()
            if memory.rows == rows:
                return memory
            del memory
        return self._allocate(rows)

    def give_back(self, memory: CacheMemory) -> None:
        """Keeps memory for the next call, unless a caller still has its cache."""
        if not memory.in_use():
            memory.clear()
            self._spare[:] = [memory]

    def cache_over(self, memory: CacheMemory) -> KeyValueCache:
        return memory.cache(self.capacity, self.layers)

    def make(self, rows: int) -> KeyValueCache:
        """An empty cache for this many rows, in new memory."""
        return self.cache_over(self._allocate(rows))

    def _allocate(self, rows: int) -> CacheMemory:
        """Layers with a sliding window keep all tokens too: the mask hides tokens that
        left the window, and a token's place never changes."""
        layers: list[Layer] = []
        for shape in self.layers:
            layer = Layer(self.capacity)
            if shape.stored is not None:
                layer = LayerOfBytes(self.capacity, shape.stored)
            size = (rows, shape.heads, 0)
            layer.lazy_initialization(
                torch.empty((*size, shape.key_size), dtype=shape.dtype),
                torch.empty((*size, shape.value_size), dtype=shape.dtype),
            )
            layers.append(layer)
        return CacheMemory(layers, rows)

    def fits(self, cache: Any) -> bool:
        """Whether `make` could have made this cache."""
        return (
            type(cache) is KeyValueCache
            and cache.capacity == self.capacity
            # A copy of a cache has an equal list.
            and (cache.shapes is self.layers or cache.shapes == self.layers)
        )

    def bytes(self, rows: int) -> int:
        tokens = rows * (self.capacity + 1)
        return tokens * sum(layer.token_bytes() for layer in self.layers)


def _differ(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether logits differ by more than rounding. A model without finite logits
    tells nothing."""
    error = (found.double() - expected.double()).norm()
    most = max(LEAST_DIFFERENCE, MOST_ROUNDINGS * torch.finfo(expected.dtype).eps)
    return bool(error > most * expected.double().norm())


@torch.no_grad()
def _layer_shapes(model: Any, length: int) -> list[LayerShape]:
    """The state that each layer keeps of one token. A run of the model tells it, since
    configurations spell it in many ways. ValueError: the model cannot use a static
    cache of this length."""
    config = model.config.get_text_config(decoder=True)
    kinds = {type(layer) for layer in StaticCache(config, max_cache_len=1).layers}
    if not kinds <= {StaticLayer, StaticSlidingWindowLayer}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(
            f"{type(model).__name__} keeps a state that is no plain cache of keys and"
            f" values ({names}): call its generate() with compile_config instead"
        )
    probe = Cache(layers=[StaticLayer(length) for _ in range(config.num_hidden_layers)])
    tokens = torch.arange(PROBE_TOKENS).unsqueeze(0)
    expected = model(tokens, use_cache=False).logits
    try:
        found = model(tokens, past_key_values=probe, use_cache=True).logits
    except (IndexError, RuntimeError) as error:
        raise ValueError(
            f"{type(model).__name__} fails with a static cache of transformers"
            f" ({error}): call its own generate() instead"
        ) from error
    if not all(layer.is_initialized for layer in probe.layers):
        raise ValueError(
            f"{type(model).__name__} does not fill a static cache of transformers:"
            " call its generate() with compile_config instead"
        )
    if _differ(found, expected):
        raise ValueError(
            f"{type(model).__name__} computes other logits with a static cache of"
            " transformers than without a cache: call its own generate() instead"
        )
    return [
        LayerShape(
            layer.num_heads, layer.k_head_dim, layer.v_head_dim, layer.keys.dtype
        )
        for layer in probe.layers
    ]
