"""Attention to chosen keys of a latent cache, which is key and value at once.

After Ascend's API reference of torch_npu, pages npu_sparse_flash_attention and
npu_kv_quant_sparse_flash_attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ..checks import FLOATS, check, check_dtype, check_shape, reads_values
from ..definition import npu_operator
from ..element_types import given_type
from ..quantisation.bytes import from_bytes
from ..quantisation.small_floats import HIFLOAT8
from ..schema import Reserved
from .sequences import FOREVER, Sequences, check_masks

_CHUNK = 1 << 25  # elements of chosen keys that eager code keeps at a time


@npu_operator
def npu_sparse_flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sparse_indices: Tensor,
    scale_value: float,
    *,
    block_table: Tensor | None = None,
    actual_seq_lengths_query: Tensor | None = None,
    actual_seq_lengths_kv: Tensor | None = None,
    query_rope: Tensor | None = None,
    key_rope: Tensor | None = None,
    sparse_block_size: int = 1,
    layout_query: str = "BSND",
    layout_kv: str = "BSND",
    sparse_mode: int = 3,
    pre_tokens: int = FOREVER,
    next_tokens: int = FOREVER,
    attention_mode: int = 0,
    return_softmax_lse: bool = False,
    sinks: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """softmax(scale_value * query key^T) value, where each token reads the keys that
    `sparse_indices` chooses.

    query           (b, s, n, d), or (t, n, d) in the layout TND: a float
    key, value      (b, s, 1, d), (t, 1, d), or (blocks, block_size, 1, d) in the layout
                    PA_BSND, with `block_table` (b, pages): query's dtype
    query_rope, key_rope  after the elements of query and of key
    sparse_indices  (b, s, 1, k) or (t, 1, k) int32: blocks of `sparse_block_size` keys;
                    -1 is none
    actual_seq_lengths_query, actual_seq_lengths_kv  (b,) lengths; ends in TND
    sparse_mode     3: of these keys a token reads those up to its own, the last token
                    and the last key being the same; 0: all
    attention_mode  0 or 2
    sinks           (n,) f32: logits that take part in the softmax of each head

    Returns the result in query's shape and dtype, zeros for a token that reads nothing;
    and with `return_softmax_lse` the maxima and the sums of the softmax, (b, 1, s, n) or
    (1, t, n) f32, else empty tensors. RuntimeError: another shape, dtype, mode or length.
    """
    name = "npu_sparse_flash_attention"
    check_dtype(query, name, "query", FLOATS)
    for what, tensor in (("key", key), ("value", value), ("key_rope", key_rope)):
        check_dtype(tensor, name, what, (query.dtype,))
    pair = (query_rope is None) == (key_rope is None)
    check(pair, name, "query_rope and key_rope must both be given, or none")
    whole = query
    if query_rope is not None and key_rope is not None:
        check_dtype(query_rope, name, "query_rope", (query.dtype,))
        check_shape(
            query_rope, name, "query_rope", (*query.shape[:-1], key_rope.shape[-1])
        )
        shape = (*key.shape[:-1], key_rope.shape[-1])
        check_shape(key_rope, name, "key_rope", shape)
        whole = torch.cat([query, query_rope], -1)
    check_shape(value, name, "value", (*key.shape[:-1], value.shape[-1]))
    width, found = query.shape[-1], key.shape[-1]
    check(width == found, name, f"query has heads of {width}, key of {found}")
    sequences = Sequences.of(
        name,
        query,
        key,
        layout_query,
        layout_kv,
        actual_seq_lengths_query,
        actual_seq_lengths_kv,
        block_table,
        "kv",
    )

    def read(part: Sequences, places: Tensor) -> tuple[Tensor, Tensor]:
        keys = part.gathered(key, places)
        values = keys if value is key else part.gathered(value, places)
        if key_rope is not None:
            keys = torch.cat([keys, part.gathered(key_rope, places)], -1)
        return keys, values

    choice = _Choice(name, sparse_indices, sparse_block_size, sparse_mode)
    choice.check(query, pre_tokens, next_tokens, attention_mode, sinks)
    made = choice.attend(whole, sequences, read, scale_value, sinks, return_softmax_lse)
    out = made[0].reshape(*query.shape[:-1], value.shape[-1])
    if not return_softmax_lse:
        nothing = query.new_empty(0, dtype=torch.float32)
        return out, nothing, nothing.clone()
    tops, sums = (_of_heads(part, query) for part in made[1:])
    return out, tops, sums


def _of_heads(numbers: Tensor, query: Tensor) -> Tensor:
    """(rows, n) as (b, 1, s, n), or (1, t, n)."""
    if query.dim() == 3:
        return numbers.unsqueeze(0)
    return numbers.unflatten(0, query.shape[:2]).unsqueeze(1)


@npu_operator
def npu_kv_quant_sparse_flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sparse_indices: Tensor,
    scale_value: float,
    key_quant_mode: int,
    value_quant_mode: int,
    *,
    key_dequant_scale: Reserved[Tensor | None] = None,
    value_dequant_scale: Reserved[Tensor | None] = None,
    block_table: Tensor | None = None,
    actual_seq_lengths_query: Tensor | None = None,
    actual_seq_lengths_kv: Tensor | None = None,
    sparse_block_size: int = 1,
    layout_query: str = "BSND",
    layout_kv: str = "BSND",
    sparse_mode: int = 3,
    pre_tokens: int = FOREVER,
    next_tokens: int = FOREVER,
    attention_mode: int = 0,
    quant_scale_repo_mode: int = 1,
    tile_size: int = 128,
    rope_head_dim: int = 64,
    key_dtype: int | None = None,
    value_dtype: int | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """npu_sparse_flash_attention of keys of int8, float8_e4m3fn, or with key_dtype and
    value_dtype bytes of hifloat8.

    query       (..., n, d + rope_head_dim): the rotary elements come last
    key, value  (..., 1, w) bytes: d quantised elements, then the rotary elements in
                query's dtype, then an f32 scale for each `tile_size` of the d elements.
                The values are the d elements without the rotary ones; value may have
                these alone, with the scales of key
    key_quant_mode, value_quant_mode  2: a scale for each tile
    quant_scale_repo_mode  1: scales stand after the elements

    The other arguments are those of npu_sparse_flash_attention. Returns (..., n, d).
    RuntimeError: another shape, dtype, mode or length.
    """
    name = "npu_kv_quant_sparse_flash_attention"
    for what, mode, known in (
        ("key_quant_mode", key_quant_mode, 2),
        ("value_quant_mode", value_quant_mode, 2),
        ("quant_scale_repo_mode", quant_scale_repo_mode, 1),
    ):
        check(mode == known, name, f"{what} must be {known}, got {mode}")
    check_dtype(query, name, "query", (torch.float16, torch.bfloat16))
    same = key_dtype == value_dtype
    check(same, name, f"key_dtype {key_dtype} and value_dtype {value_dtype} differ")
    hifloat8 = key_dtype is not None
    if hifloat8:
        given_type(key, key_dtype, name, "key", ("hifloat8",))
    else:
        check_dtype(key, name, "key", (torch.int8, torch.float8_e4m3fn))
    check_dtype(value, name, "value", (key.dtype,))
    tiles = _Tiles.of(name, query, key, tile_size, rope_head_dim, hifloat8)
    alone = (*key.shape[:-1], tiles.width)
    check_shape(value, name, "value", tuple(key.shape), alone)
    sequences = Sequences.of(
        name,
        query,
        key,
        layout_query,
        layout_kv,
        actual_seq_lengths_query,
        actual_seq_lengths_kv,
        block_table,
        "kv",
    )

    def read(part: Sequences, places: Tensor) -> tuple[Tensor, Tensor]:
        bytes_ = part.gathered(key, places)
        keys, rotary = tiles.restored(bytes_), tiles.rotary(bytes_, query.dtype)
        values = keys
        if value is not key:
            rows = part.gathered(value, places)
            whole = value.shape[-1] == key.shape[-1]
            values = tiles.scaled(rows, tiles.scales(rows if whole else bytes_))
        return torch.cat([keys, rotary.to(torch.float32)], -1), values

    choice = _Choice(name, sparse_indices, sparse_block_size, sparse_mode)
    choice.check(query, pre_tokens, next_tokens, attention_mode, sinks)
    made = choice.attend(query, sequences, read, scale_value, sinks, False)
    return made[0].reshape(*query.shape[:-1], tiles.width)


class _Tiles(NamedTuple):
    """How the bytes of a quantised key are divided."""

    width: int  # quantised elements
    rope: int  # rotary elements, of two bytes each
    size: int  # elements of a scale
    hifloat8: bool  # whether elements are hifloat8, else what their dtype says

    @staticmethod
    def of(
        name: str, query: Tensor, key: Tensor, size: int, rope: int, hifloat8: bool
    ) -> _Tiles:
        width = query.shape[-1] - rope
        fits = rope >= 0 and width > 0
        text = f"rope_head_dim {rope} is no part of heads of {query.shape[-1]}"
        check(fits, name, text)
        fits = size > 0 and width % size == 0
        text = f"tile_size {size} does not divide {width} elements of key"
        check(fits, name, text)
        wanted, found = width + 2 * rope + width // size * 4, key.shape[-1]
        text = f"key must have {wanted} bytes for rope_head_dim {rope} and tile_size"
        check(found == wanted, name, f"{text} {size}, got {found}")
        return _Tiles(width, rope, size, hifloat8)

    def restored(self, rows: Tensor) -> Tensor:
        """The quantised elements times their scales, in f32."""
        return self.scaled(rows, self.scales(rows))

    def scales(self, rows: Tensor) -> Tensor:
        return self._viewed(rows, self.width + 2 * self.rope, torch.float32)

    def scaled(self, rows: Tensor, scales: Tensor) -> Tensor:
        bits = rows[..., : self.width]
        wide = HIFLOAT8.decode(bits.view(torch.uint8)) if self.hifloat8 else bits
        tiles = wide.to(torch.float32).unflatten(-1, (-1, self.size))
        return (tiles * scales.unsqueeze(-1)).flatten(-2)

    def rotary(self, rows: Tensor, kind: torch.dtype) -> Tensor:
        return self._viewed(rows[..., : self.width + 2 * self.rope], self.width, kind)

    def _viewed(self, rows: Tensor, start: int, kind: torch.dtype) -> Tensor:
        """The bytes from `start` on, as elements of another dtype."""
        return from_bytes(rows[..., start:], kind)


class _Choice(NamedTuple):
    """Which keys each row reads: (..., 1, k) blocks of keys."""

    name: str
    indices: Tensor
    block: int
    sparse_mode: int

    def check(
        self,
        query: Tensor,
        pre_tokens: int,
        next_tokens: int,
        attention_mode: int,
        sinks: Tensor | None,
    ) -> None:
        name = self.name
        check_masks(name, self.sparse_mode, pre_tokens, next_tokens)
        known = attention_mode in (0, 2)
        check(known, name, f"attention_mode must be 0 or 2, got {attention_mode}")
        size = self.block
        known = 1 <= size <= 128 and size & (size - 1) == 0
        text = "sparse_block_size must be a power of two from 1 to 128"
        check(known, name, f"{text}, got {size}")
        check_dtype(self.indices, name, "sparse_indices", (torch.int32,))
        shape = (*query.shape[:-2], 1, self.indices.shape[-1])
        check_shape(self.indices, name, "sparse_indices", shape)
        check_dtype(sinks, name, "sinks", (torch.float32,))
        check_shape(sinks, name, "sinks", (query.shape[-2],))

    def attend(
        self,
        query: Tensor,
        sequences: Sequences,
        read: Callable[[Sequences, Tensor], tuple[Tensor, Tensor]],
        scale: float,
        sinks: Tensor | None,
        with_sums: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The attention (rows, n, d) in query's dtype, and maxima and sums (rows, n).
        Eager code takes some rows at a time; `read` gets keys and values of places."""
        rows = query.flatten(0, -3)
        blocks = self.indices.flatten(0, -2).to(torch.int64)
        seen = sequences.seen(self.sparse_mode)
        core = _plain if sinks is None and not with_sums else _with_sums
        step = max(rows.shape[0], 1)
        if reads_values(query):
            each = max(blocks.shape[1] * self.block * query.shape[-1], 1)
            step = max(_CHUNK // each, 1)
        made = []
        for start in range(0, max(rows.shape[0], 1), step):
            own = slice(start, start + step)
            part = sequences.part(own)
            places = self._places(blocks[own])
            open_ = (places >= 0) & (places < seen[own].unsqueeze(-1))
            keys, values = (
                torch.where(open_.unsqueeze(-1), t, torch.zeros_like(t))
                for t in read(part, places)
            )
            made.append(core(rows[own], keys, values, open_, scale, sinks))
        if len(made) == 1:
            return made[0]
        out, tops, sums = (torch.cat(parts) for parts in zip(*made))
        return out, tops, sums

    def _places(self, blocks: Tensor) -> Tensor:
        """The keys of blocks (rows, k), (rows, k * block); -1 of no block."""
        if self.block == 1:
            return blocks
        inner = torch.arange(self.block, device=blocks.device)
        places = blocks.unsqueeze(-1) * self.block + inner
        return torch.where(blocks.unsqueeze(-1) < 0, -1, places).flatten(-2)


def _plain(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    open_: Tensor,
    scale: float,
    _: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The attention of query (rows, n, d) to keys (rows, p, d), of which (rows, p) are
    open. All heads of a row read the same keys, so the heads are its rows."""
    wide = query if keys.dtype == query.dtype else query.to(keys.dtype)
    q, k, v = (t.unsqueeze(1) for t in (wide, keys, values))
    mask = open_[:, None, None, :]
    made = scaled_dot_product_attention(q, k, v, mask, scale=scale).squeeze(1)
    made = torch.where(open_.any(-1)[:, None, None], made, 0.0)
    nothing = query.new_empty(0, dtype=torch.float32)
    return made.to(query.dtype), nothing, nothing


def _with_sums(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    open_: Tensor,
    scale: float,
    sinks: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """`_plain` with maxima and sums of the softmax, in f32. `sinks` (n,) take part."""
    wide = query.to(torch.float32), keys.to(torch.float32)
    scores = wide[0] @ wide[1].transpose(-1, -2) * scale
    mask = open_.unsqueeze(1)
    scores = torch.where(mask, scores, -torch.inf)
    top = scores.amax(-1)
    if sinks is not None:
        top = torch.maximum(top, sinks)
    top = torch.where(top == -torch.inf, 0.0, top)
    chances = torch.where(mask, (scores - top.unsqueeze(-1)).exp(), 0.0)
    total = chances.sum(-1)
    if sinks is not None:
        total = total + (sinks - top).exp()
    shares = chances / torch.where(total == 0, 1.0, total).unsqueeze(-1)
    return (shares @ values.to(torch.float32)).to(query.dtype), top, total
