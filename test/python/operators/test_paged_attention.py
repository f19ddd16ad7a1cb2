"""Attention whose keys and values lie in a pool, at places that a table holds."""

from __future__ import annotations

import contextlib

import pytest
import torch
from checking import exported_for
from torch.nn.functional import scaled_dot_product_attention as attend

import anabranch

TOKENS = 16  # of a block
BLOCKS, HEADS, SIZE = 11, 2, 64
TABLE = torch.tensor([[3, 0, 10, 7], [1, 9, 2, 3], [8, 5, -1, 6]])
LENGTHS = torch.tensor([50, 64, 17])
TARGETS = ["avx2", "avx512", "amx"]


def slots(table: torch.Tensor) -> torch.Tensor:
    return (table.unsqueeze(-1) * TOKENS + torch.arange(TOKENS)).flatten(1)


def by_blocks(pool, table):
    """Of [blocks, tokens, heads, size]."""
    rows, count = table.shape
    return pool[table].view(rows, count * TOKENS, HEADS, -1).transpose(1, 2)


def by_index_select(pool, table):
    rows, count = table.shape
    found = pool.index_select(0, (table % BLOCKS).flatten())
    return found.view(rows, count * TOKENS, HEADS, -1).transpose(1, 2)


def by_flat_slots(pool, table):
    """Of [slots, heads * size], as a view of the same pool."""
    found = pool.view(BLOCKS * TOKENS, -1)[slots(table)]
    return found.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def heads_of_blocks(pool, table):
    """Of [blocks, heads, tokens, size]."""
    rows, count = table.shape
    found = pool.view(BLOCKS, HEADS, TOKENS, -1)[table].transpose(1, 2)
    return found.reshape(rows, HEADS, count * TOKENS, -1)


def blocks_of_heads(pool, table):
    """Of [heads, blocks, tokens, size]."""
    found = pool.view(HEADS, BLOCKS, TOKENS, -1)[:, table]
    return found.flatten(2, 3).transpose(0, 1)


def slots_of_heads(pool, table):
    """Of [heads, slots, size], as the batches of anabranch.llm have it."""
    found = pool.view(HEADS, BLOCKS * TOKENS, -1)[:, slots(table)]
    return found.transpose(0, 1)


READERS = [
    by_blocks,
    by_index_select,
    by_flat_slots,
    heads_of_blocks,
    blocks_of_heads,
    slots_of_heads,
]


class Paged(torch.nn.Module):
    def __init__(self, read, grouped: bool = True) -> None:
        super().__init__()
        self.read, self.grouped = read, grouped

    def forward(self, query, keys, values, table, mask):
        keys, values = self.read(keys, table), self.read(values, table)
        if not self.grouped:
            times = query.shape[1] // keys.shape[1]
            keys = keys.repeat_interleave(times, 1)
            values = values.repeat_interleave(times, 1)
        return attend(query, keys, values, mask, enable_gqa=self.grouped)


def inputs(length: int, dtype: torch.dtype, heads: int = 6, value_size: int = SIZE):
    """Row r sees LENGTHS[r] tokens, the last query all of them."""
    query = torch.randn(len(TABLE), heads, length, SIZE).to(dtype)
    keys = torch.randn(BLOCKS, TOKENS, HEADS, SIZE).to(dtype)
    values = torch.randn(BLOCKS, TOKENS, HEADS, value_size).to(dtype)
    last = LENGTHS[:, None, None, None] - length + torch.arange(length)[:, None]
    mask = torch.arange(TABLE.numel() // len(TABLE) * TOKENS) <= last
    return query, keys, values, TABLE, mask


def compare(found, module, given):
    """No larger errors than twice eager's."""
    exact = module(*(x.double() if x.is_floating_point() else x for x in given))
    error = (torch.as_tensor(found).double() - exact).abs().max()
    allowed = (module(*given).double() - exact).abs().max()
    assert error <= 2 * allowed + 1e-6 * (1 + exact.abs().max())


def check(module, given, kernels: int | None = None, **settings):
    compiled = anabranch.compile(module, **settings)
    with torch.no_grad():
        found = compiled(*given)
        compare(found, module, given)
    assert anabranch.counters.fallback_calls == 0
    if kernels is not None:
        assert anabranch.counters.kernels == kernels
    return compiled


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [1, 7, 16])
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_the_pool_is_read_in_place(read, length, dtype):
    """One kernel computes the attention. Those that compute places, if any, are few."""
    makes_slots = read in (by_flat_slots, slots_of_heads, by_index_select)
    module, given = Paged(read), inputs(length, dtype)
    check(module, given, kernels=2 if makes_slots else 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [1, 16])
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_symbolic_sizes(read, length, dtype):
    """One program serves tables of several lengths."""
    module, given = Paged(read), inputs(length, dtype)
    compiled = anabranch.compile(module, dynamic=True)
    for count in (4, 3, 2):
        less = (*given[:3], TABLE[:, :count], given[4][..., : count * TOKENS])
        with torch.no_grad():
            compare(compiled(*less), module, less)


@pytest.mark.parametrize("length", [1, 20])
def test_repeated_heads_are_not_copied(length):
    module, given = Paged(by_blocks, grouped=False), inputs(length, torch.float32)
    check(module, given, kernels=1)


@pytest.mark.parametrize("length", [1, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_pool_of_bytes_is_converted_where_it_is_read(dtype, length):
    """Each token of a head has a scale. The scales of a request are a kernel of their
    own; no kernel stores its keys or values."""

    class Bytes(torch.nn.Module):
        def forward(self, query, keys, values, scales, table, mask):
            scale = by_blocks(scales, table)
            found = [
                by_blocks(pool, table).to(dtype) * scale for pool in (keys, values)
            ]
            return attend(query, *found, mask, enable_gqa=True)

    query, _, _, table, mask = inputs(length, dtype)
    keys, values = (
        torch.randint(-127, 128, (BLOCKS, TOKENS, HEADS, SIZE), dtype=torch.int8)
        for _ in range(2)
    )
    scales = torch.rand(BLOCKS, TOKENS, HEADS, 1).to(dtype) / 64
    module, given = Bytes(), (query, keys, values, scales, table, mask)
    compiled = anabranch.compile(module)
    with torch.no_grad():
        found = compiled(*given)
        torch.testing.assert_close(found, module(*given), rtol=0.02, atol=0.02)
    assert anabranch.counters.fallback_calls == 0
    assert anabranch.counters.kernels == 2


@pytest.mark.parametrize("value_size", [24, 80])
@pytest.mark.parametrize("length", [1, 20])
def test_heads_that_fill_no_vectors(length, value_size):
    check(Paged(by_blocks), inputs(length, torch.float32, value_size=value_size))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [1, 20])
def test_targets(length, dtype, target, shared_folder):
    module, given = Paged(by_blocks).eval(), inputs(length, dtype)
    path = shared_folder / f"package{length}-{dtype}"
    package = exported_for(target, module, given, path, TARGETS)
    compare(package(*given), module, given)


@pytest.mark.parametrize("length", [1, 16])
@pytest.mark.parametrize("place", [(0, 0), (1, 3), (2, 3)])
@pytest.mark.parametrize("bad", [BLOCKS, -BLOCKS - 1, 10**12])
def test_a_place_outside_of_the_pool(bad, place, length):
    """Eager checks all places, also those of tokens that the mask hides."""
    query, keys, values, table, mask = inputs(length, torch.float32)
    compiled = anabranch.compile(Paged(by_blocks), dynamic=False)
    with torch.no_grad():
        compiled(query, keys, values, table, mask)
        wrong = table.clone()
        wrong[place] = bad
        with pytest.raises((IndexError, RuntimeError), match="(?i)ind(ex|ices)"):
            compiled(query, keys, values, wrong, mask)


@pytest.mark.parametrize("scope", [contextlib.nullcontext, anabranch.super_kernel])
def test_a_pool_that_the_same_graph_writes(scope):
    """The step's own tokens are written first, and seen; also as one launch, whose tiles
    wait for what they read."""

    class Step(torch.nn.Module):
        def forward(self, query, keys, values, new, written, table, mask):
            with scope("step"):
                keys.view(-1, HEADS, SIZE).index_copy_(0, written, new)
                values.view(-1, HEADS, SIZE).index_copy_(0, written, 2 * new)
                return (
                    Paged(by_blocks)(torch.tanh(query), keys, values, table, mask) + 1
                )

    query, keys, values, table, mask = inputs(1, torch.float32)
    new = torch.randn(len(TABLE), HEADS, SIZE)
    written = torch.tensor([7 * TOKENS + 1, 3 * TOKENS + 15, 5 * TOKENS])
    mine, theirs = ([keys.clone(), values.clone()] for _ in range(2))
    with torch.no_grad():
        compiled = anabranch.compile(Step(), fullgraph=True, dynamic=False)
        found = compiled(query, *mine, new, written, table, mask)
        expected = Step()(query, *theirs, new, written, table, mask)
    torch.testing.assert_close(found, expected)
    for a, b in zip(mine, theirs):
        assert torch.equal(a, b)


def test_keys_that_lie_across_their_head_are_copied():
    """Rows of a head are no rows of this pool, so the copy stays."""

    class Across(torch.nn.Module):
        def forward(self, query, keys, values, table, mask):
            keys = keys.permute(0, 2, 3, 1).contiguous()  # tokens are neighbours
            found = keys[table].permute(0, 2, 1, 4, 3).flatten(2, 3)
            return attend(query, found, by_blocks(values, table), mask, enable_gqa=True)

    check(Across(), inputs(1, torch.float32))
