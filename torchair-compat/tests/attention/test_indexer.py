"""The lightning indexer finds the keys of the largest scores, against float64, in every
layout and dtype, in graphs and outside."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled
from sequence_layouts import LAYOUTS, Laid

HEADS, WIDTH = 3, 8
QUERIES, KEYS = [2, 3, 1], [9, 3, 6]
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


def check_best(places, scores, count, sparse_mode, laid, values=None) -> None:
    """The chosen places of each token have the largest scores of those that it sees."""
    for number, (part, wanted) in enumerate(zip(laid.rows(places), scores)):
        queries, keys = laid.queries[number], laid.keys[number]
        for token in range(queries):
            seen = keys
            if sparse_mode == 3:
                seen = max(min(keys, keys - queries + token + 1), 0)
            found = part[token, 0].tolist()
            used = min(seen, count)
            assert found[used:] == [-1] * (count - used)
            assert len(set(found[:used])) == used
            assert all(0 <= place < seen for place in found[:used])
            best = wanted[token][:seen].sort(descending=True).values[:used]
            chosen = wanted[token][found[:used]]
            torch.testing.assert_close(chosen, best, atol=1e-3, rtol=1e-3)
            if values is not None:
                given = laid.rows(values)[number][token, 0]
                torch.testing.assert_close(
                    given[:used].double(), best, atol=2e-2, rtol=1e-2
                )
                assert (given[used:] == -torch.inf).all()


@pytest.mark.parametrize("count", [4, 12])
@pytest.mark.parametrize("sparse_mode", [0, 3])
@pytest.mark.parametrize(
    ("dtype", "weight"), [(F16, F16), (BF16, BF16), (BF16, F32), (F32, F32)]
)
@pytest.mark.parametrize("layouts", LAYOUTS)
def test_places(layouts, dtype, weight, sparse_mode, count) -> None:
    laid = Laid(layouts, QUERIES, KEYS)
    queries = [torch.randn(n, HEADS, WIDTH).to(dtype) for n in QUERIES]
    keys = [torch.randn(n, 1, WIDTH).to(dtype) for n in KEYS]
    weights = [torch.randn(n, HEADS).to(weight) for n in QUERIES]
    scores = [
        (torch.relu(q.double() @ k[:, 0].double().T) * w.double().unsqueeze(-1)).sum(1)
        for q, k, w in zip(queries, keys, weights)
    ]
    options = laid.options("key")
    given = laid.lay_queries(queries), laid.lay_keys(keys), laid.lay_queries(weights)

    def function(*operands):
        return torch_npu.npu_lightning_indexer(
            *operands,
            **options,
            sparse_count=count,
            sparse_mode=sparse_mode,
            return_value=True,
        )

    in_graph = [compiled(function)] if dtype == BF16 and weight == F32 else []
    for run in (function, *in_graph):
        places, values = run(*given)
        assert places.dtype == torch.int32 and values.dtype == dtype
        check_best(places, scores, count, sparse_mode, laid, values)


@pytest.mark.parametrize("kind", [torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize("scale", [F16, F32])
@pytest.mark.parametrize("layouts", LAYOUTS)
def test_quantised_places(layouts, scale, kind) -> None:
    laid = Laid(layouts, QUERIES, KEYS)

    def random(*shape):
        return torch.randint(-100, 100, shape).float().to(kind)

    queries = [random(n, HEADS, WIDTH) for n in QUERIES]
    keys = [random(n, 1, WIDTH) for n in KEYS]
    weights = [torch.randn(n, HEADS).to(F16) for n in QUERIES]
    factors = [(torch.rand(n, HEADS) / 30).to(scale) for n in QUERIES]
    key_factors = [(torch.rand(n, 1) / 30).to(scale) for n in KEYS]
    scores = []
    for q, k, w, s, t in zip(queries, keys, weights, factors, key_factors):
        dots = q.float().double() @ k[:, 0].float().double().T
        dots = dots * s.double().unsqueeze(-1) * t[:, 0].double()
        scores.append((torch.relu(dots) * w.double().unsqueeze(-1)).sum(1))
    options = laid.options("key")

    def function(*operands):
        return torch_npu.npu_quant_lightning_indexer(
            *operands, 0, 0, **options, sparse_count=4
        )

    given = (
        laid.lay_queries(queries),
        laid.lay_keys(keys),
        laid.lay_queries(weights),
        laid.lay_queries(factors),
        laid.lay_keys(key_factors),
    )
    in_graph = [compiled(function)] if kind == torch.int8 and scale == F16 else []
    for run in (function, *in_graph):
        check_best(run(*given), scores, 4, 3, laid)


def test_whole_sequences() -> None:
    """Without lengths; no return_value makes an empty second result."""
    query, key = torch.randn(2, 3, HEADS, WIDTH), torch.randn(2, 5, 1, WIDTH)
    weights = torch.rand(2, 3, HEADS)

    def function(*operands):
        return torch_npu.npu_lightning_indexer(*operands, sparse_count=5, sparse_mode=0)

    for run in (function, compiled(function)):
        found, values = run(query, key, weights)
        assert found.sort(-1).values.equal(torch.arange(5).int().expand(2, 3, 1, 5))
        assert values.numel() == 0


GIVEN = {
    "query": torch.ones(2, 3, HEADS, WIDTH),
    "key": torch.ones(2, 5, 1, WIDTH),
    "weights": torch.ones(2, 3, HEADS),
}
LENGTHS = torch.ones(2).int()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"layout_query": "BNSD"}, "layout_query must be BSND or TND, got 'BNSD'"),
        ({"layout_key": "TND"}, "layout_key TND does not go with layout_query BSND"),
        ({"layout_key": "PA"}, "layout_key must be BSND, TND or PA_BSND, got 'PA'"),
        ({"layout_key": "PA_BSND"}, "PA_BSND needs actual_seq_lengths_key"),
        (
            {"layout_key": "PA_BSND", "actual_seq_lengths_key": LENGTHS},
            "layout_key PA_BSND and block_table need each other",
        ),
        ({"sparse_mode": 1}, "sparse_mode must be 0 or 3, got 1"),
        ({"pre_tokens": 5}, "pre_tokens must be 9223372036854775807, got 5"),
        ({"sparse_count": 0}, "sparse_count must be from 1 to 8192, got 0"),
        ({"weights": torch.ones(2, 3)}, "weights must have shape"),
        ({"key": torch.ones(2, 5, 2, WIDTH)}, "key must have 1 head, got 2"),
        ({"key": torch.ones(2, 5, 1, 4)}, "query has heads of 8, key of 4"),
        ({"key": torch.ones(3, 5, 1, WIDTH)}, "key has 3 sequences, query 2"),
        ({"actual_seq_lengths_key": LENGTHS * 6}, r"be from 0 to 5, got \[6, 6\]"),
        ({"actual_seq_lengths_query": LENGTHS[:1]}, "must have shape"),
    ],
)
def test_errors(change, text) -> None:
    with pytest.raises(RuntimeError, match=f"npu_lightning_indexer: .*{text}"):
        torch_npu.npu_lightning_indexer(**GIVEN | change)
