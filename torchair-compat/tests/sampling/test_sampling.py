"""Filters of logits and choices of tokens against loops in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import torch_npu
from pictures import compiled

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def filtered(row: np.ndarray, p: float | None, k: int | None) -> np.ndarray:
    """Which logits of a row stay: the k largest with equals, and then the fewest of the
    largest whose probabilities sum to p."""
    order = np.argsort(row, kind="stable")[::-1]
    kept = np.ones(len(row), dtype=bool)
    if k is not None:
        kept = row >= row[order[k - 1]]
    if p is None:
        return kept
    weights = np.where(kept, np.exp(row - row.max()), 0)
    chances = weights / weights.sum()
    before, stay = 0.0, np.zeros(len(row), dtype=bool)
    for place, at in enumerate(order):
        stay[at] = kept[at] and (place == 0 or before < p)
        before += chances[at]
    return stay


@pytest.mark.parametrize("dtype", DTYPES)
def test_top_k_top_p(dtype) -> None:
    torch.manual_seed(0)
    logits = (torch.randn(6, 40) * 2).to(dtype)
    p = torch.tensor([0.1, 0.4, 0.55, 0.83, 0.97, 0.7]).to(dtype)
    k = torch.tensor([1, 5, 40, 8, 30, 2], dtype=torch.int32)
    wide = logits.double().numpy()
    function = torch_npu.npu_top_k_top_p
    calls = [function] if dtype == torch.float16 else [function, compiled(function)]
    for call in calls:
        for p_, k_ in ((p, k), (p, None), (None, k)):
            found = call(logits, p_, k_)
            for i in range(6):
                stays = filtered(
                    wide[i],
                    None if p_ is None else float(p[i]),
                    None if k_ is None else int(k[i]),
                )
                wanted = np.where(stays, wide[i], -np.inf)
                np.testing.assert_array_equal(found[i].double().numpy(), wanted)


def sample(logits, **options):
    batch = logits.shape[0]
    every = {
        "top_k": torch.zeros(batch, dtype=torch.int32),
        "top_p": torch.ones(batch, dtype=logits.dtype),
    }
    return torch_npu.npu_top_k_top_p_sample(logits, **(every | options))


def test_the_largest_without_filters() -> None:
    logits = torch.randn(4, 20)
    chosen, rest = sample(logits)
    assert torch.equal(chosen, logits.argmax(-1)) and rest.numel() == 0


@pytest.mark.parametrize("probabilities", [False, True])
def test_filters_and_an_exponential_draw(probabilities) -> None:
    torch.manual_seed(0)
    logits = torch.randn(5, 30) * 2
    given = logits.softmax(-1) if probabilities else logits
    k = torch.tensor([4, 0, 30, 7, 2000], dtype=torch.int32)
    p = torch.tensor([0.5, 0.7, 0.0, 1.5, 0.9])
    least = torch.tensor([0.0, 0.2, 0.0, 0.3, 2.0])
    q = torch.empty(5, 30).exponential_()
    chosen, rest = sample(
        given,
        top_k=k,
        top_p=p,
        min_ps=least,
        q=q,
        is_need_logits=True,
        input_is_logits=not probabilities,
    )
    outside = 0.0 if probabilities else -np.inf
    for i in range(5):
        row = given[i].double().numpy()
        kept = np.ones(30, dtype=bool)
        if 1 <= k[i] <= 30:
            kept = row >= np.sort(row)[::-1][k[i] - 1]
        weights = row if probabilities else np.exp(row - row.max())
        chances = np.where(kept, weights, 0)
        if not probabilities:
            chances = chances / chances.sum()
        if p[i] < 1:
            order, before = np.argsort(chances, kind="stable")[::-1], 0.0
            stay = np.zeros(30, dtype=bool)
            for place, at in enumerate(order):
                stay[at] = place == 0 or (p[i] > 0 and before < float(p[i]))
                before += chances[at]
            kept &= stay
        if 0 < least[i] <= 1:
            kept &= chances >= chances.max() * float(least[i])
        np.testing.assert_allclose(
            rest[i].numpy(), np.where(kept, row, outside), rtol=1e-6
        )
        drawn = np.where(kept, chances, 0) / (np.abs(q[i].numpy()) + 1e-8)
        assert int(chosen[i]) == int(drawn.argmax())


def test_draws_by_seeds() -> None:
    logits = torch.randn(3, 50)
    q = torch.tensor([[5, 1], [6, 0]])
    first, _ = sample(logits, q=q, post_sample="multiNomial")
    again, _ = sample(logits, q=q, post_sample="multiNomial")
    assert torch.equal(first, again)
    assert (logits.gather(-1, first.unsqueeze(-1)) > -torch.inf).all()
    counts = torch.zeros(4)
    few = torch.tensor([[1.0, 0.0, 2.0, -torch.inf]])
    for seed in range(300):
        q = torch.tensor([[seed, 0]])
        counts[sample(few, q=q, post_sample="multiNomial")[0]] += 1
    wanted = few.softmax(-1)[0]
    torch.testing.assert_close(counts / 300, wanted, atol=0.1, rtol=0)


def test_what_does_not_fit() -> None:
    logits = torch.randn(2, 9)
    for options, text in (
        ({"top_k": torch.zeros(2)}, "top_k must be int32"),
        ({"top_p": torch.ones(3)}, "top_p must have shape"),
        ({"q": torch.rand(2, 8)}, "q must have shape"),
        ({"q": torch.rand(2, 9), "post_sample": "some"}, "post_sample must be"),
    ):
        with pytest.raises(RuntimeError, match=f"npu_top_k_top_p_sample: {text}"):
            sample(logits, **options)
    with pytest.raises(RuntimeError, match="npu_top_k_top_p: logits must have 2"):
        torch_npu.npu_top_k_top_p(torch.randn(9))
