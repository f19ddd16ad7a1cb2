"""Attention whose operands have other batches: one head of keys for all heads of the query,
and batches of one that repeat."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import anabranch

# The batches and heads of the query, the keys and the values.
BATCHES = {
    "one head of keys": ((2, 4), (2, 1), (2, 1)),
    "one head in one batch": ((2, 4), (1, 1), (1, 1)),
    "one head of values": ((2, 4), (2, 4), (2, 1)),
    "one batch of queries": ((1, 4), (3, 4), (3, 4)),
    "one batch of values": ((3, 4), (3, 4), (1, 4)),
    "one head of the query": ((3, 1), (3, 4), (3, 4)),
    "three dimensions": ((4,), (1,), (1,)),
    "values of three dimensions": ((4,), (4,), (1,)),
    "more batches": ((2, 3, 4), (2, 1, 1), (1, 3, 1)),
}


def run(name: str, rows: int, dynamic: bool, **options: Tensor | bool | None) -> None:
    torch._dynamo.reset()
    torch.manual_seed(rows)
    compiled = torch.compile(
        scaled_dot_product_attention, backend="anabranch", fullgraph=True
    )
    for keys in (rows, rows + 3):
        tensors = [
            torch.randn(*batch, size, 8)
            for batch, size in zip(BATCHES[name], (rows, keys, keys), strict=True)
        ]
        if dynamic:
            for tensor in tensors[1:]:
                torch._dynamo.mark_dynamic(tensor, tensor.dim() - 2)
        exact = scaled_dot_product_attention(*(t.double() for t in tensors), **options)
        got = compiled(*tensors, **options)
        torch.testing.assert_close(got.double(), exact, rtol=1e-5, atol=1e-5)
        report = anabranch.last_report()
        assert not report["fallbacks"] and not report.get("eager")


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", BATCHES)
def test_batches(name, dynamic) -> None:
    run(name, 5, dynamic)


@pytest.mark.parametrize("name", ["one head of keys", "one batch of queries"])
def test_causal_batches(name) -> None:
    run(name, 6, dynamic=False, is_causal=True)


def test_a_mask_for_each_batch() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(scaled_dot_product_attention, backend="anabranch")
    query, key = torch.randn(2, 4, 5, 8), torch.randn(2, 1, 7, 8)
    mask = torch.rand(2, 1, 5, 7) > 0.3
    mask[..., 0] = True
    expected = scaled_dot_product_attention(query, key, key, mask)
    torch.testing.assert_close(compiled(query, key, key, mask), expected)
    assert not anabranch.last_report()["fallbacks"]
