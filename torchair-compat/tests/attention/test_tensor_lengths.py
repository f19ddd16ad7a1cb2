"""Lengths of fused attention as tensors: eager as lists, and data in a graph."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled

HEADS, SIZE = 2, 16
OPERATORS = {
    "one": (
        lambda: torch_npu.npu_fused_infer_attention_score,
        ("num_heads", "scale", "actual_seq_lengths", "actual_seq_lengths_kv"),
    ),
    "two": (
        lambda: torch.ops.npu.npu_fused_infer_attention_score_v2,
        ("num_query_heads", "softmax_scale", "actual_seq_qlen", "actual_seq_kvlen"),
    ),
}


def attention(which: str, rows, columns):
    operator, (heads, scale, first, second) = OPERATORS[which]
    named = {heads: HEADS, scale: 0.25, first: rows, second: columns}
    return lambda q, k, v: operator()(q, k, v, input_layout="TND", **named)[0]


def expected(states, rows, columns) -> torch.Tensor:
    made = []
    starts = zip([0, *rows], rows, [0, *columns], columns)
    for row, row_end, column, column_end in starts:
        q, k, v = (
            t.double()[a:b].transpose(0, 1)
            for t, a, b in zip(
                states, (row, column, column), (row_end, column_end, column_end)
            )
        )
        made.append((torch.softmax(q @ k.mT * 0.25, -1) @ v).transpose(0, 1))
    return torch.cat(made).float()


@pytest.mark.parametrize("which", OPERATORS)
def test_values(which) -> None:
    """Tensors for both, for one beside a list, and of int32; one graph for all lengths."""
    states = [torch.randn(6, HEADS, SIZE) for _ in range(3)]
    kinds = [(torch.tensor, torch.tensor), (torch.tensor, list), (list, torch.tensor)]
    for first, second in kinds:
        rows, columns = [2, 6], [3, 6]
        run = attention(which, first(rows), second(columns))
        torch.testing.assert_close(run(*states), expected(states, rows, columns))
        if first is second:
            made = compiled(run)(*states)
            torch.testing.assert_close(made, expected(states, rows, columns))


def test_new_lengths_need_no_new_graph() -> None:
    states = [torch.randn(6, HEADS, SIZE) for _ in range(3)]

    def step(q, k, v, rows):
        return attention("two", rows, rows)(q, k, v)

    torch._dynamo.reset()
    run = compiled(step)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for rows in ([2, 6], [1, 6], [5, 6]):
            wanted = expected(states, rows, rows)
            made = run(*states, torch.tensor(rows, dtype=torch.int32))
            torch.testing.assert_close(made, wanted)
