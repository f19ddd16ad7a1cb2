"""Causal convolutions of three tokens, as layers of gated delta rules begin with.

After Ascend's API reference of torch_npu: pages npu_fused_causal_conv1d and
npu_masked_causal_conv1d."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from ..caches.paged import put_rows
from ..checks import check, check_dtype, check_shape, reads_values
from ..definition import npu_operator
from ..quantisation.rows import group_of_rows
from ..schema import Written

_HALF = (torch.float16, torch.bfloat16)
_WIDTH = 3  # tokens that an output reads
_MODES = ("default", "pangu")


@npu_operator
def npu_masked_causal_conv1d(
    input: Tensor, weight: Tensor, *, mask: Tensor | None = None
) -> Tensor:
    """The sum over k of weight[k] * input[s - 2 + k], where rows before the first are 0;
    computed in f32.

    input   (s, b, h) float16 or bfloat16
    weight  (3, h), in input's dtype
    mask    (b, s) bool: the result is 0 where it is False

    RuntimeError: another shape or dtype.
    """
    name = "npu_masked_causal_conv1d"
    check_dtype(input, name, "input", _HALF)
    text = f"input must have 3 dimensions, got {input.dim()}"
    check(input.dim() == 3, name, text)
    length, batch, width = input.shape
    _check_weight(name, weight, input, width)
    check_dtype(mask, name, "mask", (torch.bool,))
    check_shape(mask, name, "mask", (batch, length))
    wide = input.to(torch.float32)
    padded = torch.cat([wide.new_zeros(_WIDTH - 1, batch, width), wide])
    taps = weight.to(torch.float32)
    made = sum(padded[k : k + length] * taps[k] for k in range(_WIDTH))
    assert isinstance(made, Tensor)
    if mask is not None:
        made = torch.where(mask.t().unsqueeze(-1), made, 0.0)
    return made.to(input.dtype)


def _check_weight(name: str, weight: Tensor, x: Tensor, width: int) -> None:
    check_dtype(weight, name, "weight", (x.dtype,))
    check_shape(weight, name, "weight", (_WIDTH, width))


@npu_operator
def npu_fused_causal_conv1d(
    x: Tensor,
    weight: Tensor,
    conv_states: Written,
    *,
    query_start_loc: Tensor | None = None,
    cache_indices: Tensor | None = None,
    initial_state_mode: Tensor | None = None,
    bias: Tensor | None = None,
    num_accepted_tokens: Tensor | None = None,
    activation: str | None = "None",
    pad_slot_id: int | None = -1,
    run_mode: int | None = 0,
    residual_connection: int | None = 0,
    max_query_len: int | None = -1,
    num_computed_tokens: Tensor | None = None,
    block_idx_first_scheduled_token: Tensor | None = None,
    block_idx_last_scheduled_token: Tensor | None = None,
    initial_state_idx: Tensor | None = None,
    block_size: int | None = 128,
    conv_mode: str | None = "default",
) -> Tensor:
    """The sum over k of weight[k] * the token 2 - k before, for the tokens of each
    sequence; the tokens before the first are the newest of its cached rows. Computed in
    f32. Writes the newest tokens to the cache.

    x            (tokens, dim), or (b, length, dim): float16 or bfloat16
    weight       (3, dim), and conv_states (lines, c, dim) with c of at least 2 rows, in x's
                 dtype
    query_start_loc  (b + 1,) int32: where each sequence begins, and the end; needed for x of
                 two dimensions
    cache_indices    (b,) int32: the line of each sequence, None: its number; or (b, blocks),
                 the lines of its blocks of `block_size` tokens: then a sequence reads that of
                 initial_state_idx, writes that of block_idx_last_scheduled_token, and the
                 lines from block_idx_first_scheduled_token on keep the ends of full blocks
    num_accepted_tokens  (b,) int32: the cached rows end 2 rows after this number minus 1;
                 None: all rows count
    num_computed_tokens  (b,) int32: a sequence with 0 begins with zeros
    pad_slot_id  a sequence of this line is left out: its results are 0
    residual_connection  1 adds x
    conv_mode    "pangu" makes results 0 that read tokens before the sequence's first

    The documentation says that initial_state_mode, bias, activation and run_mode have no
    effect; max_query_len, the longest sequence, has none here.
    RuntimeError: another shape or dtype, or arguments that need each other.
    """
    name = "npu_fused_causal_conv1d"
    tokens = _Tokens.of(name, x, weight, conv_states, query_start_loc)
    blocks = block_idx_first_scheduled_token, block_idx_last_scheduled_token
    cached = cache_indices, initial_state_idx, *blocks, block_size
    counts = num_accepted_tokens, num_computed_tokens
    made, live = _convolved(
        name, tokens, cached, counts, pad_slot_id, residual_connection, conv_mode
    )
    return torch.where(live, made, 0.0).to(x.dtype).reshape(x.shape)


@npu_operator
def npu_fused_causal_conv1d_v2(
    x: Written,
    weight: Tensor,
    conv_states: Written,
    *,
    query_start_loc: Tensor | None = None,
    cache_indices: Tensor | None = None,
    initial_state_mode: Tensor | None = None,
    bias: Tensor | None = None,
    num_accepted_tokens: Tensor | None = None,
    activation: str | None = "None",
    pad_slot_id: int | None = -1,
    run_mode: int | None = 0,
    residual_connection: int | None = 0,
    max_query_len: int | None = -1,
    num_computed_tokens: Tensor | None = None,
    block_idx_first_scheduled_token: Tensor | None = None,
    block_idx_last_scheduled_token: Tensor | None = None,
    initial_state_idx: Tensor | None = None,
    block_size: int | None = 128,
    conv_mode: str | None = "default",
) -> None:
    """npu_fused_causal_conv1d into x; tokens of sequences that are left out stay.
    RuntimeError: as there."""
    name = "npu_fused_causal_conv1d_v2"
    tokens = _Tokens.of(name, x, weight, conv_states, query_start_loc)
    blocks = block_idx_first_scheduled_token, block_idx_last_scheduled_token
    cached = cache_indices, initial_state_idx, *blocks, block_size
    counts = num_accepted_tokens, num_computed_tokens
    made, live = _convolved(
        name, tokens, cached, counts, pad_slot_id, residual_connection, conv_mode
    )
    made = torch.where(live, made.to(x.dtype), tokens.x)
    x.copy_(made.reshape(x.shape))


def _convolved(
    name: str,
    tokens: _Tokens,
    cached: tuple[Any, ...],
    counts: tuple[Tensor | None, Tensor | None],
    pad: int | None,
    residual_connection: int | None,
    conv_mode: str | None,
) -> tuple[Tensor, Tensor]:
    """The result in f32 (tokens, dim), and whether a token's sequence is not left out
    (tokens, 1). `cached`: the arguments of `_Lines.of`. `counts`: the accepted and the
    computed tokens of each sequence."""
    lines = _Lines.of(name, tokens.batch, *cached)
    told = _told(name, *counts, conv_mode, tokens)
    residual = _residual(name, residual_connection)
    made, live = tokens.run(name, lines, pad, *told, residual)
    return made, live.unsqueeze(-1)


def _residual(name: str, number: int | None) -> bool:
    text = f"residual_connection must be 0 or 1, got {number}"
    check(number in (None, 0, 1), name, text)
    return number == 1


def _check_int32(name: str, shape: tuple[Any, ...], **given: Tensor | None) -> None:
    for what, tensor in given.items():
        check_dtype(tensor, name, what, (torch.int32,))
        check_shape(tensor, name, what, shape)


def _told(
    name: str,
    accepted: Tensor | None,
    computed: Tensor | None,
    conv_mode: str | None,
    tokens: _Tokens,
) -> tuple[Tensor | None, Tensor | None, bool]:
    """The tokens that were accepted and computed, and whether early results are 0."""
    mode = conv_mode or "default"
    check(mode in _MODES, name, f"conv_mode must be one of {_MODES}, got {mode!r}")
    _check_int32(name, (tokens.batch,), num_accepted_tokens=accepted)
    _check_int32(name, (tokens.batch,), num_computed_tokens=computed)
    text = "conv_mode 'pangu' needs num_computed_tokens"
    check(mode == "default" or computed is not None, name, text)
    if accepted is not None and reads_values(accepted):
        most = tokens.states.shape[1] - _WIDTH + 2
        known = all(1 <= one <= most for one in accepted.tolist())
        text = f"num_accepted_tokens must be from 1 to {most}, got {accepted.tolist()}"
        check(known, name, text)
    return accepted, computed, mode == "pangu"


@dataclasses.dataclass(frozen=True)
class _Lines:
    """The lines of conv_states that sequences read and write, (b,) int64 each."""

    read: Tensor
    write: Tensor
    # With blocks: the lines of blocks (b, blocks), and the first and last of each sequence.
    table: Tensor | None
    first: Tensor | None
    last: Tensor | None
    block_size: int

    @staticmethod
    def of(
        name: str,
        batch: int,
        indices: Tensor | None,
        start: Tensor | None,
        first: Tensor | None,
        last: Tensor | None,
        block_size: int | None,
    ) -> _Lines:
        blocks = {
            "block_idx_first_scheduled_token": first,
            "block_idx_last_scheduled_token": last,
            "initial_state_idx": start,
        }
        paged = indices is not None and indices.dim() == 2
        _check_int32(name, (batch,), **blocks)
        for what, given in blocks.items():
            text = f"{what} and cache_indices of two dimensions need each other"
            check((given is not None) == paged, name, text)
        size = 128 if block_size is None else block_size
        check(size > 0, name, f"block_size must be positive, got {size}")
        if indices is None:
            numbers = torch.arange(batch)
            return _Lines(numbers, numbers, None, None, None, size)
        check_dtype(indices, name, "cache_indices", (torch.int32,))
        if not paged:
            check_shape(indices, name, "cache_indices", (batch,))
            line = indices.to(torch.int64)
            return _Lines(line, line, None, None, None, size)
        check_shape(indices, name, "cache_indices", (batch, indices.shape[1]))
        assert start is not None and first is not None and last is not None
        table, end = indices.to(torch.int64), last.to(torch.int64)
        read, write = (
            table.gather(1, at.to(torch.int64).unsqueeze(1)).squeeze(1)
            for at in (start, last)
        )
        return _Lines(read, write, table, first.to(torch.int64), end, size)

    def used(self, name: str, pad: int | None, count: int) -> Tensor:
        """Which sequences do not have the line `pad`. RuntimeError: lines that the cache
        does not have."""
        used = self.read != (-1 if pad is None else pad)
        if reads_values(self.read):
            numbers = [n for n, own in zip(self.read.tolist(), used.tolist()) if own]
            known = all(0 <= n < count for n in numbers)
            text = f"cache_indices must be from 0 to {count - 1}, or pad_slot_id, {pad}"
            check(known, name, f"{text}, got {numbers}")
        return used


@dataclasses.dataclass(frozen=True)
class _Tokens:
    """The tokens of all sequences, one after another."""

    x: Tensor  # (tokens, dim)
    weight: Tensor
    states: Tensor
    starts: Tensor  # of each sequence, (b,) int64
    sizes: Tensor
    sequence: Tensor  # of each token; b for tokens of none
    batch: int

    @staticmethod
    def of(
        name: str, x: Tensor, weight: Tensor, states: Tensor, starts: Tensor | None
    ) -> _Tokens:
        check_dtype(x, name, "x", _HALF)
        check(x.dim() in (2, 3), name, f"x must have 2 or 3 dimensions, got {x.dim()}")
        _check_weight(name, weight, x, x.shape[-1])
        check_dtype(states, name, "conv_states", (x.dtype,))
        right = states.dim() == 3 and states.shape[2] == x.shape[-1]
        text = f"conv_states must be (lines, rows, {x.shape[-1]})"
        check(right, name, f"{text}, got {tuple(states.shape)}")
        text = f"conv_states must have at least {_WIDTH - 1} rows in a line"
        check(states.shape[1] >= _WIDTH - 1, name, f"{text}, got {states.shape[1]}")
        if starts is None:
            text = "query_start_loc is needed for x of two dimensions"
            check(x.dim() == 3, name, text)
            begins = torch.arange(x.shape[0] + 1) * x.shape[1]
        else:
            check_dtype(starts, name, "query_start_loc", (torch.int32,))
            text = "query_start_loc must have 1 dimension, of sequences and one"
            check(starts.dim() == 1 and starts.shape[0] > 1, name, text)
            begins = starts.to(torch.int64)
        rows = x.reshape(-1, x.shape[-1])
        sizes = begins[1:] - begins[:-1]
        if reads_values(begins):
            numbers = begins.tolist()
            right = numbers == sorted(numbers) and 0 <= numbers[0]
            right = right and numbers[-1] <= rows.shape[0]
            text = f"query_start_loc must rise from 0 to at most {rows.shape[0]}"
            check(right, name, f"{text}, got {numbers}")
        own = group_of_rows(begins[1:], rows.shape[0])
        return _Tokens(
            rows, weight, states, begins[:-1], sizes, own, begins.shape[0] - 1
        )

    def run(
        self,
        name: str,
        lines: _Lines,
        pad: int | None,
        accepted: Tensor | None,
        computed: Tensor | None,
        from_first: bool,
        residual: bool,
    ) -> tuple[Tensor, Tensor]:
        """The results (tokens, dim) in f32, and whether each token has one. Writes the
        lines."""
        used = lines.used(name, pad, self.states.shape[0])
        offset = torch.full_like(self.sizes, self.states.shape[1] - _WIDTH + 1)
        if accepted is not None:
            offset = accepted.to(torch.int64) - 1
        fresh = torch.zeros_like(used)
        if computed is not None:
            fresh = computed == 0
            offset = torch.where(fresh, 0, offset)
        padded = _Padded(self, lines.read, offset, fresh)
        own = self.sequence.clamp(max=self.batch - 1)
        place = torch.arange(self.x.shape[0], device=self.x.device) - self.starts[own]
        taps = self.weight.to(torch.float32)
        made = sum(
            padded.at(own, place + k + offset[own]).to(torch.float32) * taps[k]
            for k in range(_WIDTH)
        )
        assert isinstance(made, Tensor)
        if from_first and computed is not None:
            early = place < _WIDTH - 1 - computed.to(torch.int64)[own]
            made = torch.where(early.unsqueeze(-1), 0.0, made)
        if residual:
            made = made + self.x.to(torch.float32)
        self._write(lines, padded, used, computed)
        inside = (self.sequence < self.batch) & (place >= 0)
        return made, inside & used[own]

    def _write(
        self, lines: _Lines, padded: _Padded, used: Tensor, computed: Tensor | None
    ) -> None:
        rows = self.states.shape[1]
        last = self._ends(lines, padded, used, rows)
        parts = [last]
        if lines.table is not None and computed is not None:
            parts.append(self._full_blocks(lines, padded, used, computed))
        values, slots = (torch.cat(part) for part in zip(*parts))
        put_rows(self.states, values, slots, rows)

    def _ends(
        self, lines: _Lines, padded: _Padded, used: Tensor, rows: int
    ) -> tuple[Tensor, Tensor]:
        """The newest tokens of each sequence, and their slots; -1: not written."""
        slot = torch.arange(rows, device=self.x.device).expand(self.batch, rows)
        length = padded.offset + _WIDTH - 1 + self.sizes
        at = length.unsqueeze(1) - rows + slot
        sequence = torch.arange(self.batch, device=self.x.device).unsqueeze(1)
        values = padded.at(sequence.expand_as(at), at)
        target = lines.write.unsqueeze(1) * rows + slot
        kept = (at >= 0) & used.unsqueeze(1)
        return values.flatten(0, 1), torch.where(kept, target, -1).flatten()

    def _full_blocks(
        self, lines: _Lines, padded: _Padded, used: Tensor, computed: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The last two tokens before the end of each full block, and their slots."""
        table, first, last = lines.table, lines.first, lines.last
        assert table is not None and first is not None and last is not None
        size, rows, most = lines.block_size, self.states.shape[1], table.shape[1]
        rest = size - computed.to(torch.int64) % size
        beyond = (self.sizes - rest) % size
        end = self.sizes - beyond - torch.where(beyond == 0, size, 0)
        chunk = torch.arange(most, device=self.x.device).unsqueeze(0)
        count = (last - first).unsqueeze(1)
        boundary = end.unsqueeze(1) - (count - chunk - 1) * size
        line = table.gather(1, (first.unsqueeze(1) + chunk).clamp(max=most - 1))
        step = torch.arange(_WIDTH - 1, device=self.x.device)
        at = (boundary + padded.offset.unsqueeze(1)).unsqueeze(-1) + step
        sequence = torch.arange(self.batch, device=self.x.device)[:, None, None]
        values = padded.at(sequence.expand_as(at), at)
        target = (line * rows + rows - _WIDTH + 1).unsqueeze(-1) + step
        kept = ((chunk < count) & used.unsqueeze(1)).unsqueeze(-1)
        slots = torch.where(kept, target, -1)
        return values.flatten(0, 2), slots.flatten()


@dataclasses.dataclass(frozen=True)
class _Padded:
    """The cached rows of each sequence, and then its tokens. The first token that counts
    is `offset` + 2 tokens later than the first cached row."""

    tokens: _Tokens
    line: Tensor
    offset: Tensor
    fresh: Tensor  # whether the cached rows are 0

    def at(self, sequence: Tensor, index: Tensor) -> Tensor:
        """The rows with these numbers (..., dim). A number that a sequence does not have
        reads any row."""
        tokens = self.tokens
        lines, rows = tokens.states.shape[:2]
        cached = self.offset[sequence] + _WIDTH - 1
        line = self.line[sequence].clamp(0, max(lines - 1, 0))
        old = tokens.states[line, index.clamp(0, rows - 1)]
        old = torch.where(self.fresh[sequence].unsqueeze(-1), 0.0, old)
        new = tokens.starts[sequence] + index - cached
        new_rows = tokens.x[new.clamp(0, max(tokens.x.shape[0] - 1, 0))]
        return torch.where((index < cached).unsqueeze(-1), old, new_rows)
