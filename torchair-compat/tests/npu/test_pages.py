"""Operators that read and write pages of caches equal loops, in graphs and outside."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from agreement import both

SIZE, HEADS, DIM = 4, 2, 32
KINDS = [torch.float16, torch.bfloat16, torch.float32, torch.int8]


def to_blocks(cache):
    last = 32 if cache.element_size() == 1 else 16
    return cache.flatten(2).unflatten(2, (-1, last)).transpose(1, 2).contiguous()


@pytest.mark.parametrize("nz", [False, True])
@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize("offset", [None, [4, 0, 5]])
@pytest.mark.parametrize("kind", KINDS)
def test_gather(kind, offset, sums, nz) -> None:
    """Rows of no block are zeros, rows after all sequences stay."""
    cache = torch.randint(-9, 9, (6, SIZE, HEADS, DIM)).to(kind)
    table = torch.tensor([[4, 1, 2], [5, -1, 0], [3, 0, 9]], dtype=torch.int32)
    lens = [3, 6, 7]
    rows = torch.full((sum(lens) + 2, HEADS, DIM), 7).to(kind)
    wanted, at = rows.clone(), 0
    for number, count in enumerate(lens):
        first = 0 if offset is None else offset[number] // SIZE
        for j in range(count):
            page = first + j // SIZE
            block = int(table[number, page]) if page < 3 else -1
            inside = 0 <= block < 6
            wanted[at] = cache[block, j % SIZE] if inside else 0
            at += 1
    given = torch.tensor(lens)
    given = torch.nn.functional.pad(given.cumsum(0), (1, 0)) if sums else given
    starts = None if offset is None else torch.tensor(offset)
    laid = to_blocks(cache) if nz else cache

    def function(keys, values, table, lens, key, value):
        torch_npu.npu_gather_pa_kv_cache(
            keys,
            values,
            table,
            lens,
            key,
            value,
            seq_offset=starts,
            is_seq_lens_cumsum=sums,
        )
        return key + 0

    key, value = rows.clone(), rows.clone()
    both(function, laid, laid.clone(), table, given, key, value)
    assert torch.equal(key, wanted) and torch.equal(value, wanted)
    found = torch_npu.npu_gather_pa_kv_cache_functional(
        laid,
        laid,
        table,
        given,
        rows,
        rows,
        seq_offset=starts,
        is_seq_lens_cumsum=sums,
    )
    assert all(torch.equal(one, wanted) for one in found)
    assert (rows == 7).all()


@pytest.mark.parametrize("nz", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_reshape_and_cache(kind, nz) -> None:
    key, value = (torch.randint(-9, 9, (5, HEADS, DIM)).to(kind) for _ in range(2))
    slots = torch.tensor([3, 17, -1, 0, 9], dtype=torch.int32)
    caches = [torch.zeros(5, SIZE, HEADS, DIM).to(kind) for _ in range(2)]
    wanted = [cache.clone() for cache in caches]
    for rows, cache in zip((key, value), wanted):
        for row, slot in zip(rows, slots.tolist()):
            if slot >= 0:
                cache[slot // SIZE, slot % SIZE] = row
    if nz:
        caches, wanted = ([to_blocks(c) for c in some] for some in (caches, wanted))

    def function(key, value, key_cache, value_cache, slots):
        torch_npu._npu_reshape_and_cache(key, value, key_cache, value_cache, slots)
        return key_cache + 0

    both(function, key, value, *caches, slots)
    assert all(map(torch.equal, caches, wanted))
    if not nz:
        single = torch.zeros_like(wanted[0])
        found = torch_npu.npu_scatter_pa_cache(key, slots, key_cache=single)
        assert found is single and torch.equal(single, wanted[0])
    single = torch.zeros_like(wanted[0])
    torch_npu.atb._npu_reshape_and_cache_siso(key, single, slots)
    assert torch.equal(single, wanted[0])


def test_compressed_keys_alone() -> None:
    """As npu_scatter_pa_kv_cache writes them."""
    key = torch.randn(2, 5, 3, 8)
    told = {
        "compress_lens": torch.tensor([[2, 0, 3], [1, 2, 0]], dtype=torch.int32),
        "seq_lens": torch.tensor([4, 5], dtype=torch.int32),
    }
    slots = torch.arange(6).reshape(2, 3) * 8
    caches = [torch.zeros(8, 8, 1, 8) for _ in range(3)]
    torch_npu.npu_scatter_pa_cache(key, slots, **told, key_cache=caches[0])
    torch_npu.npu_scatter_pa_kv_cache(key, key, *caches[1:], slots, **told)
    assert caches[0].any() and torch.equal(caches[0], caches[1])


def test_add_to_f32() -> None:
    for kind in (torch.float16, torch.bfloat16):
        x, weight, total = (
            torch.randn(6, 3).to(kind),
            torch.randn(6, 5).to(kind),
            torch.rand(3, 5),
        )
        wanted = total.double() + x.double().t() @ weight.double()
        both(lambda *t: torch_npu._npu_matmul_add_fp32(*t), x, weight, total)
        torch.testing.assert_close(total.double(), wanted, atol=1e-4, rtol=1e-5)


CACHE = torch.zeros(6, SIZE, HEADS, DIM)
GIVEN = {
    "key_cache": CACHE,
    "value_cache": CACHE,
    "block_tables": torch.zeros(2, 3, dtype=torch.int32),
    "seq_lens": torch.ones(2, dtype=torch.int32),
    "key": torch.zeros(2, HEADS, DIM),
    "value": torch.zeros(2, HEADS, DIM),
}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"key_cache": CACHE.half()}, "key_cache must be float32"),
        ({"is_seq_lens_cumsum": True}, r"seq_lens must have shape \(3,\)"),
        ({"seq_offset": torch.ones(3).int()}, r"seq_offset must have shape \(2,\)"),
        ({"key": torch.zeros(2, HEADS, 5)}, "has no rows of"),
        ({"block_tables": torch.zeros(2).int()}, "block_tables must have 2 dimensions"),
        ({"value": torch.zeros(2, DIM)}, "value must have 3 dimensions, got 2"),
    ],
)
def test_errors(change, text) -> None:
    with pytest.raises(RuntimeError, match=f"npu_gather_pa_kv_cache: .*{text}"):
        torch_npu.npu_gather_pa_kv_cache(**GIVEN | change)
