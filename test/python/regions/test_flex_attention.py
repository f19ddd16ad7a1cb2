"""`flex_attention`: the graph around it is one program, with eager PyTorch's results."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from checking import assert_equal, compiled
from torch import nn
from torch.nn.attention.experimental._paged_attention import PagedAttention
from torch.nn.attention.flex_attention import (
    create_block_mask,
    flex_attention,
)

import anabranch

HEADS = 4
SLOPES = torch.rand(HEADS)
TABLE = torch.randn(HEADS, 128, 128)
DOCUMENTS = torch.arange(128) // 40
LENGTHS = torch.tensor([50, 128, 0])
CAP = torch.tensor(3.0)
MINUS_INFINITY = torch.tensor(-float("inf"))

SCORES: dict[str, Any] = {
    "none": None,
    "alibi": lambda s, b, h, i, j: s - SLOPES[h] * (i - j),
    "scaled": lambda s, b, h, i, j: (1 - s * 2) / -4 + 0.5,
    "table": lambda s, b, h, i, j: s + TABLE[h, i, j],
    "turned": lambda s, b, h, i, j: s + TABLE[h, j, i],
    "distance": lambda s, b, h, i, j: s + TABLE[h, 0, torch.clamp(i - j, -60, 60) + 60],
    "hidden": lambda s, b, h, i, j: torch.where(i >= j, s, -float("inf")),
    "shown": lambda s, b, h, i, j: torch.where(i < j, MINUS_INFINITY, s) * 3,
    "cap": lambda s, b, h, i, j: torch.tanh(s / CAP) * CAP,
    "finite": lambda s, b, h, i, j: torch.where(i >= j, s, -1e9),
    "reduced": lambda s, b, h, i, j: s + TABLE[h, i].amax() * 0.1,
    "squared": lambda s, b, h, i, j: s * s + s,
    "wide": lambda s, b, h, i, j: s + SLOPES.double().sum() + b,
}

MASKS: dict[str, Any] = {
    "none": None,
    "causal": lambda b, h, i, j: i >= j,
    "window": lambda b, h, i, j: (i >= j) & (i - j <= 20),
    "prefix": lambda b, h, i, j: (j < 17) | (i >= j),
    "documents": lambda b, h, i, j: (i >= j) & (DOCUMENTS[i] == DOCUMENTS[j]),
    "lengths": lambda b, h, i, j: j < LENGTHS[b],
    "of heads": lambda b, h, i, j: (h % 2 == 0) | (i >= j),
    "nothing": lambda b, h, i, j: j < i,
}

CLOSE = {"atol": 2e-5, "rtol": 2e-5}


def assert_whole() -> None:
    """The last graph became one program, and PyTorch ran no part of it."""
    report = anabranch.last_report()
    assert report is not None and report.get("parts") == 1, report
    assert not report["fallbacks"], report["fallbacks"]
    assert anabranch.counters.eager_graphs == 0


def operands(
    batch: int = 2,
    queries: int = 96,
    keys: int = 96,
    heads: int = HEADS,
    dtype: torch.dtype = torch.float32,
) -> list[torch.Tensor]:
    query = torch.randn(batch, HEADS, queries, 16, dtype=dtype)
    return [query, *(torch.randn(batch, heads, keys, 16, dtype=dtype) for _ in "kv")]


def block_mask(name: str, batch: int, queries: int, keys: int) -> Any:
    if MASKS[name] is None:
        return None
    return create_block_mask(MASKS[name], batch, HEADS, queries, keys, device="cpu")


def compare(
    pairs: list[tuple[str, str]],
    given: list[torch.Tensor],
    tolerance: dict[str, float] = CLOSE,
    **settings: Any,
) -> None:
    """Compares a graph of one call for each pair of a score and a mask with eager."""
    batch, _, queries, _ = given[0].shape
    shown = {
        mask: block_mask(mask, batch, queries, given[1].shape[2]) for _, mask in pairs
    }

    def function(query, key, value):
        return [
            flex_attention(
                query * 1.5,
                key,
                value,
                score_mod=SCORES[score],
                block_mask=shown[mask],
                enable_gqa=query.shape[1] != key.shape[1],
                **settings,
            )
            for score, mask in pairs
        ]

    run = compiled(function, fullgraph=True)
    with torch.no_grad():
        for pair, got, wanted in zip(pairs, run(*given), function(*given), strict=True):
            assert_equal((pair, got), (pair, wanted), **tolerance)
    assert_whole()


def test_scores():
    compare([(score, "causal") for score in SCORES], operands())


def test_masks():
    """A row that sees no key is zero."""
    compare([("none", mask) for mask in MASKS], operands(3, 90, 110))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_dtypes(dtype):
    tolerance = {"atol": 2e-2, "rtol": 2e-2} if dtype.itemsize == 2 else CLOSE
    pairs = [("alibi", "window"), ("cap", "causal")]
    compare(pairs, operands(dtype=dtype), tolerance)


@pytest.mark.parametrize("return_lse", [False, True])
def test_heads_that_share_keys(return_lse):
    """A row that sees no key has minus infinity as the logarithm of its sum."""
    pairs = [("table", "lengths"), ("cap", "lengths"), ("squared", "nothing")]
    compare(pairs, operands(3, heads=2), return_lse=return_lse)


def test_results_have_the_strides_of_the_query():
    query = torch.randn(2, 33, HEADS, 16).transpose(1, 2)
    keys = [torch.randn(2, 60, HEADS, 16).transpose(1, 2) for _ in "kv"]

    def function(query, key, value):
        result = flex_attention(query, key, value, score_mod=SCORES["alibi"])
        return result, result.transpose(1, 2).flatten(2) * 2

    with torch.no_grad():
        got = compiled(function, fullgraph=True)(query, *keys)
        assert_equal(got, function(query, *keys), **CLOSE)
    assert_whole()


def test_sizes_that_change():
    """One program serves all lengths. A table's rows are read in place where the symbols
    show that it has enough."""

    def function(query, key, value, bias, far):
        def score(s, b, h, i, j):
            return torch.where(i - j < far, s + bias[h, j], -float("inf"))

        return flex_attention(query, key, value, score_mod=score)

    run = compiled(function, fullgraph=True, dynamic=True)
    for batch, queries, keys in ((3, 40, 70), (5, 70, 40), (2, 17, 1)):
        given = (
            *operands(batch, queries, keys),
            torch.randn(HEADS, keys),
            queries // 2,
        )
        with torch.no_grad():
            assert_equal(run(*given), function(*given), **CLOSE)
        assert_whole()


def test_symbolic_heads_of_a_batch():
    """Sizes that inputs share are one size for attention: no call of PyTorch."""
    given = operands(3)
    for tensor in given:
        torch._dynamo.mark_dynamic(tensor, 0)
        torch._dynamo.mark_dynamic(tensor, 2)
    compare([("none", "none")], given)


@pytest.mark.parametrize("queries", [128, 1])
def test_pages(queries):
    """Keys and values of two requests in pages of one pool, that a block mask of pages and
    a score function find by a table."""
    size, count, rows = 64, 6, torch.arange(2)
    pages = PagedAttention(count, size, max_batch_size=2, device="cpu")
    for row in rows:
        pages.reserve(row, torch.tensor(128))
    pool = [torch.zeros(1, 2, count * size, 16) for _ in "kv"]
    query, *given = operands(2, queries, 128, heads=2)
    pages.assign(rows, torch.arange(128).expand(2, 128), *given, *pool)
    mask = create_block_mask(
        lambda b, h, i, j: i + 128 - queries >= j,
        *(2, 1, queries, 128),
        device="cpu",
        BLOCK_SIZE=size,
    )
    shown = pages.convert_logical_block_mask(mask)
    paged = pages.get_score_mod(SCORES["alibi"])

    def function(query, keys, values):
        return flex_attention(
            *(query, keys, values), paged, shown, enable_gqa=query.shape[1] != 2
        )

    with torch.no_grad():
        plain = flex_attention(query, *given, SCORES["alibi"], mask, enable_gqa=True)
        got = compiled(function, fullgraph=True)(query, *pool)
    assert_equal(got, plain, **CLOSE)
    assert_whole()


def test_index_beyond_a_captured_table():
    """Eager PyTorch refuses the index, and so does the program; the next call is right."""

    def function(query, key, value, table):
        score = lambda s, b, h, i, j: s + table[j]
        return flex_attention(query, key, value, score_mod=score)

    given = operands()
    run = compiled(function, fullgraph=True)
    with torch.no_grad():
        with pytest.raises((IndexError, RuntimeError)):
            function(*given, torch.randn(90))
        with pytest.raises((IndexError, RuntimeError)):
            run(*given, torch.randn(90))
        table = torch.randn(100)
        assert_equal(run(*given, table), function(*given, table), **CLOSE)


def test_calls_in_a_branch():
    def function(query, key, value):
        def masked(query, key, value):
            return flex_attention(query, key, value, score_mod=SCORES["hidden"])

        def capped(query, key, value):
            return flex_attention(query, key, value, score_mod=SCORES["cap"])

        return torch.cond(query.sum() > 0, masked, capped, (query, key, value))

    run = compiled(function, fullgraph=True)
    given = operands()
    with torch.no_grad():
        for sign in (1, -1):
            query = given[0].abs() * sign
            expected = function(query, *given[1:])
            assert_equal(run(query, *given[1:]), expected, **CLOSE)
    assert_whole()


class Layer(nn.Module):
    """Attention with a learned bias of heads, over parts of one projection."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(64, 192)
        self.slopes = nn.Parameter(torch.rand(HEADS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.project(x).view(*x.shape[:2], 3, HEADS, 16)
        query, key, value = parts.permute(2, 0, 3, 1, 4)

        def score(s, b, h, i, j):
            return torch.where(i >= j, s - self.slopes[h] * (i - j), -float("inf"))

        result = flex_attention(query, key, value, score_mod=score)
        return result.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("freeze", [False, True])
def test_module(freeze):
    layer, x = Layer().eval(), torch.randn(2, 48, 64)
    run = compiled(layer, fullgraph=True, options={"freeze": freeze})
    with torch.no_grad():
        assert_equal(run(x), layer(x), **CLOSE)
    assert_whole()


def test_package(tmp_path):
    layer, x = Layer().eval().requires_grad_(False), torch.randn(2, 48, 64)
    anabranch.export(layer, tmp_path / "layer", (x,))
    assert_equal(anabranch.load(tmp_path / "layer")(x), layer(x), **CLOSE)


def test_gradients_of_a_captured_tensor():
    """PyTorch computes no gradients of operands on a CPU, but those of what a function
    captures."""
    given, slopes = operands(), torch.rand(HEADS, requires_grad=True)

    def function(query, key, value):
        score = lambda s, b, h, i, j: s * slopes[h]
        return flex_attention(query, key, value, score_mod=score)

    compiled(function, fullgraph=True)(*given).square().sum().backward()
    got, slopes.grad = slopes.grad, None
    function(*given).square().sum().backward()
    torch.testing.assert_close(got, slopes.grad, atol=1e-3, rtol=1e-3)


def test_random_functions(monkeypatch):
    """Scores and masks put together by chance."""
    dice = random.Random(7)
    steps = (
        lambda s, b, h, i, j: s * 0.5 + 1,
        lambda s, b, h, i, j: 2 - s,
        lambda s, b, h, i, j: s / 4 - (i - j) * 0.1,
        lambda s, b, h, i, j: torch.where(j % 3 == 0, s, -float("inf")),
        lambda s, b, h, i, j: torch.where(i + h < j, -float("inf"), s),
        lambda s, b, h, i, j: s + TABLE[h, j, i],
        lambda s, b, h, i, j: s + LENGTHS[b] * SLOPES[h],
        lambda s, b, h, i, j: torch.sigmoid(s),
    )
    pairs = []
    for number in range(6):
        chosen = dice.sample(steps, 3)

        def score(s, b, h, i, j, chosen=chosen):
            for step in chosen:
                s = step(s, b, h, i, j)
            return s

        monkeypatch.setitem(SCORES, f"random {number}", score)
        pairs.append((f"random {number}", dice.choice(list(MASKS))))
    compare(pairs, operands(3, dice.randint(1, 99), 99))
