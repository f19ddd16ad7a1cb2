"""Rows in the order of ranks become rows in the order of experts, as a loop orders them."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from agreement import both


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8])
@pytest.mark.parametrize(
    "counts",
    [[[2, 1, 3], [1, 2, 1]], [[0, 0, 4], [3, 0, 0], [0, 0, 1]], [[5]], [[0, 0]]],
)
def test_order(counts, dtype, kind) -> None:
    table = torch.tensor(counts, dtype=kind)
    total = int(table.sum())
    tokens = torch.randint(-9, 9, (total, 6)).to(dtype)
    scales = torch.rand(total)
    parts = {
        (expert, rank): part
        for (rank, expert), part in zip(
            ((r, e) for r in range(len(counts)) for e in range(len(counts[0]))),
            torch.arange(total).split(table.flatten().tolist()),
        )
    }
    order = torch.cat([parts[key] for key in sorted(parts)])

    def function(tokens, table, scales):
        return torch_npu.npu_moe_re_routing(tokens, table, per_token_scales=scales)

    rows, factors, places, sizes = both(function, tokens, table, scales)
    assert torch.equal(places, order.to(torch.int32))
    assert torch.equal(rows, tokens[order]) and torch.equal(factors, scales[order])
    assert torch.equal(sizes, table.sum(0, dtype=kind))
    assert torch_npu.npu_moe_re_routing(tokens, table)[1].numel() == 0


@pytest.mark.parametrize(
    ("dtype", "number"),
    [(torch.float8_e4m3fn, None), (torch.float8_e5m2, None), (None, 290), (None, 296)],
)
def test_order_of_small_floats(dtype, number) -> None:
    """Rows have the order that their bytes have as int8."""
    table = torch.tensor([[2, 1, 3], [1, 2, 1]])
    bits = torch.randint(0, 120, (10, 6), dtype=torch.uint8)
    tokens = bits if dtype is None else bits.view(dtype)

    def function(tokens, table):
        rows = torch_npu.npu_moe_re_routing(tokens, table, tokens_dtype=number)[0]
        assert rows.dtype == tokens.dtype
        return rows.view(torch.uint8)

    found = both(function, tokens, table)
    wanted = torch_npu.npu_moe_re_routing(bits.to(torch.int8), table)[0]
    assert torch.equal(found, wanted.to(torch.uint8))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"tokens_dtype": 290}, "tokens of hifloat8 must be torch.uint8"),
        ({"tokens_dtype": 1}, "tokens_dtype must be float8_e4m3fn"),
        ({"expert_token_num_type": 0}, "expert_token_num_type must be 1, got 0"),
        ({"idx_type": 1}, "idx_type must be 0, got 1"),
        ({"tokens": torch.ones(3)}, "tokens must have 2 dimensions, got 1"),
        ({"tokens": torch.ones(4, 2)}, "counts 3 rows, tokens has 4"),
        ({"expert_token_num_per_rank": torch.ones(3).int()}, "must have 2 dimensions"),
        ({"expert_token_num_per_rank": torch.ones(1, 3)}, "must be int32, int64"),
        ({"per_token_scales": torch.ones(2)}, r"must have shape \(3,\), got \(2,\)"),
        (
            {"per_token_scales": torch.ones(3).half()},
            "per_token_scales must be float32",
        ),
    ],
)
def test_errors(change, text) -> None:
    counts = torch.ones(1, 3, dtype=torch.int32)
    given = {"tokens": torch.ones(3, 2), "expert_token_num_per_rank": counts} | change
    with pytest.raises(RuntimeError, match=f"npu_moe_re_routing: .*{text}"):
        torch_npu.npu_moe_re_routing(**given)
