"""Attention to chosen keys equals loops in float64, in every layout and dtype, in graphs and
outside; NaN where no sequence has a key reaches nothing."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from agreement import both
from sequence_layouts import LAYOUTS, Laid

HEADS, WIDTH, ROPE, SCALE = 3, 16, 4, 0.3
QUERIES, KEYS = [2, 3, 1], [9, 2, 6]
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


def chosen(blocks, size, keys, queries, token, sparse_mode):
    """The keys that a token reads."""
    end = keys if sparse_mode == 0 else min(keys, keys - queries + token + 1)
    places = [b * size + i for b in blocks if b >= 0 for i in range(size)]
    return [p for p in places if p < end]


def reference(queries, keys, values, indices, size, sparse_mode, sinks):
    """For each sequence the result, the maxima and the sums, (tokens, heads, ...)."""
    found = []
    for q, k, v, blocks in zip(queries, keys, values, indices):
        out = torch.zeros(*q.shape[:2], v.shape[-1], dtype=torch.float64)
        tops, sums = torch.zeros(2, *q.shape[:2], dtype=torch.float64)
        for token in range(q.shape[0]):
            places = chosen(
                blocks[token, 0].tolist(), size, len(k), len(q), token, sparse_mode
            )
            for head in range(HEADS):
                scores = k[places, 0].double() @ q[token, head].double() * SCALE
                more = scores
                if sinks is not None:
                    more = torch.cat([scores, sinks[head : head + 1].double()])
                if not len(more):
                    continue
                tops[token, head] = more.max()
                sums[token, head] = (more - more.max()).exp().sum()
                shares = (scores - more.max()).exp() / sums[token, head]
                out[token, head] = shares @ v[places, 0].double()
        found.append((out, tops, sums))
    return found


def choose(size):
    """Blocks of each token: some, in any order, then -1."""
    made = []
    for q, k in zip(QUERIES, KEYS):
        blocks = -(-k // size)
        rows = []
        for _ in range(q):
            count = int(torch.randint(1, min(blocks, 4) + 1, (1,)))
            row = torch.full((4,), -1)
            row[:count] = torch.randperm(blocks)[:count]
            rows.append(row)
        made.append(torch.stack(rows).unsqueeze(1).to(torch.int32))
    return made


@pytest.mark.parametrize("with_sinks", [False, True])
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("sparse_mode", [0, 3])
@pytest.mark.parametrize("dtype", [F16, BF16, F32])
@pytest.mark.parametrize("layouts", LAYOUTS)
def test_values(layouts, dtype, sparse_mode, size, with_sinks) -> None:
    laid = Laid(layouts, QUERIES, KEYS)
    queries = [torch.randn(n, HEADS, WIDTH + ROPE).to(dtype) for n in QUERIES]
    keys = [torch.randn(n, 1, WIDTH + ROPE).to(dtype) for n in KEYS]
    indices = choose(size)
    sinks = torch.randn(HEADS) if with_sinks else None
    values = [k[..., :WIDTH] for k in keys]
    wanted = reference(queries, keys, values, indices, size, sparse_mode, sinks)
    options = laid.options("kv") | {"sparse_block_size": size, "sinks": sinks}
    options |= {"sparse_mode": sparse_mode, "return_softmax_lse": with_sinks}
    query, key = laid.lay_queries(queries), laid.lay_keys(keys)
    blocks = laid.lay_queries(indices)

    def function(query, query_rope, key, key_rope, blocks):
        return torch_npu.npu_sparse_flash_attention(
            query,
            key,
            key,
            blocks,
            SCALE,
            query_rope=query_rope,
            key_rope=key_rope,
            attention_mode=2,
            **options,
        )

    parts = [t.contiguous() for x in (query, key) for t in x.split([WIDTH, ROPE], -1)]
    given = *parts, blocks
    near = (
        {"atol": 4e-2, "rtol": 2e-2} if dtype == BF16 else {"atol": 4e-3, "rtol": 4e-3}
    )
    found = function(*given)
    if dtype != F16 and size == 1:
        both(function, *given, **near, equal_nan=True)
    assert found[0].dtype == dtype
    numbers = found[1:]
    if with_sinks and layouts[0] == "BSND":
        numbers = [n.squeeze(1) for n in numbers]
    elif with_sinks:
        numbers = [n.squeeze(0) for n in numbers]
    for number, (out, tops, sums) in enumerate(wanted):
        row = laid.rows(found[0])[number]
        torch.testing.assert_close(row.double(), out, **near)
        if not with_sinks:
            continue
        for part, expected in zip(numbers, (tops, sums)):
            row = laid.rows(part)[number].double()
            torch.testing.assert_close(row, expected, **near)


@pytest.mark.parametrize("apart", ["same", "apart", "elements"])
@pytest.mark.parametrize("kind", [torch.int8, torch.float8_e4m3fn, torch.uint8])
@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize("layouts", LAYOUTS)
def test_quantised_values(layouts, dtype, kind, apart) -> None:
    """Keys as bytes: elements, rotary elements, scales of tiles. uint8 are hifloat8. Values
    are the same tensor, one apart, or the elements of the keys alone."""
    tile = 8
    number = torch_npu.hifloat8 if kind == torch.uint8 else None
    laid = Laid(layouts, QUERIES, KEYS)
    queries = [torch.randn(n, HEADS, WIDTH + ROPE).to(dtype) for n in QUERIES]

    def packed(count):
        elements = torch.randint(-100, 100, (count, 1, WIDTH)).float()
        small = torch_npu.HiFloat8Tensor.to_hifloat8(elements)
        elements = elements.to(kind) if number is None else small._data
        rotary = torch.randn(count, 1, ROPE).to(dtype)
        scales = torch.rand(count, 1, WIDTH // tile) / 50
        whole = [t.view(torch.int8) for t in (elements, rotary, scales)]
        wide = elements.float() if number is None else small.float()
        wide = wide.unflatten(-1, (-1, tile)) * scales.unsqueeze(-1)
        return torch.cat(whole, -1), torch.cat([wide.flatten(-2), rotary.float()], -1)

    keys, wide = zip(*(packed(n) for n in KEYS))
    values, apart_wide = keys, wide
    if apart == "apart":
        values, apart_wide = zip(*(packed(n) for n in KEYS))
    if apart == "elements":
        values = [rows[..., :WIDTH].contiguous() for rows in keys]
    indices = choose(1)
    wanted = reference(
        queries, wide, [v[..., :WIDTH] for v in apart_wide], indices, 1, 3, None
    )
    options = laid.options("kv")

    def function(query, key, value, blocks):
        key = key.view(kind)
        return torch_npu.npu_kv_quant_sparse_flash_attention(
            query,
            key,
            key if apart == "same" else value.view(kind),
            blocks,
            SCALE,
            2,
            2,
            tile_size=tile,
            rope_head_dim=ROPE,
            attention_mode=2,
            key_dtype=number,
            value_dtype=number,
            **options,
        )

    given = (
        laid.lay_queries(queries),
        laid.lay_keys(list(keys)),
        laid.lay_keys(list(values)),
        laid.lay_queries(indices),
    )
    near = {"atol": 4e-2, "rtol": 2e-2}
    found = function(*given)
    if dtype == BF16 and kind != torch.float8_e4m3fn:
        both(function, *given, **near)
    for row, (out, _, _) in zip(laid.rows(found), wanted):
        torch.testing.assert_close(row.double(), out, **near)


GIVEN = {
    "query": torch.ones(2, 3, HEADS, WIDTH),
    "key": torch.ones(2, 5, 1, WIDTH),
    "value": torch.ones(2, 5, 1, WIDTH),
    "sparse_indices": torch.zeros(2, 3, 1, 4, dtype=torch.int32),
    "scale_value": 1.0,
}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"attention_mode": 1}, "attention_mode must be 0 or 2, got 1"),
        ({"sparse_block_size": 3}, "must be a power of two from 1 to 128, got 3"),
        ({"layout_kv": "TND"}, "layout_kv TND does not go with layout_query BSND"),
        ({"query_rope": torch.ones(2, 3, HEADS, 4)}, "must both be given, or none"),
        ({"value": torch.ones(2, 4, 1, WIDTH)}, "value must have shape"),
        ({"sparse_indices": torch.zeros(2, 3, 1, 4)}, "sparse_indices must be int32"),
        ({"sparse_indices": torch.zeros(2, 3, 4).int()}, "must have shape"),
        ({"sinks": torch.ones(2)}, r"sinks must have shape \(3,\), got \(2,\)"),
        ({"next_tokens": 0}, "next_tokens must be 9223372036854775807, got 0"),
    ],
)
def test_errors(change, text) -> None:
    with pytest.raises(RuntimeError, match=f"npu_sparse_flash_attention: .*{text}"):
        torch_npu.npu_sparse_flash_attention(**GIVEN | change)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"key_quant_mode": 1}, "key_quant_mode must be 2, got 1"),
        ({"quant_scale_repo_mode": 0}, "quant_scale_repo_mode must be 1, got 0"),
        ({"tile_size": 5}, "tile_size 5 does not divide 16 elements of key"),
        ({"value": torch.ones(2, 5, 1, 8, dtype=torch.int8)}, "value must have shape"),
        ({"rope_head_dim": 20}, "rope_head_dim 20 is no part of heads of 20"),
        (
            {"tile_size": 4},
            "key must have 40 bytes for rope_head_dim 4 and tile_size 4",
        ),
    ],
)
def test_quantised_errors(change, text) -> None:
    name = "npu_kv_quant_sparse_flash_attention"
    key = torch.ones(2, 5, 1, 32, dtype=torch.int8)
    given = GIVEN | {
        "query": torch.ones(2, 3, HEADS, WIDTH + ROPE).half(),
        "key": key,
        "value": key,
        "key_quant_mode": 2,
        "value_quant_mode": 2,
        "tile_size": 8,
        "rope_head_dim": ROPE,
    }
    with pytest.raises(RuntimeError, match=f"{name}: .*{text}"):
        torch_npu.npu_kv_quant_sparse_flash_attention(**given | change)
