"""npu_gather_selection_kv_cache equals a loop over tokens and chosen blocks."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from agreement import both

BATCH, LENGTH, WIDTH, ROPE = 2, 2, 8, 4
FULL, OWN = 8, 4  # keys of a block of each cache


def caches(kind, rope):
    full = torch.randint(-99, 99, (7, FULL, WIDTH)).to(kind)
    selection = torch.zeros(9, OWN, WIDTH).to(kind)
    width = ROPE if rope else 0
    return (
        full,
        torch.randint(-99, 99, (7, FULL, width)).to(kind),
        selection,
        torch.zeros(9, OWN, width).to(kind),
    )


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(
    ("kind", "rope"),
    [(torch.float16, True), (torch.bfloat16, True), (torch.int8, False)],
)
def test_copies(kind, rope, size, flat) -> None:
    full, full_rope, selection, own_rope = caches(kind, rope)
    count = 8 // size
    keys, queries = [13, 0], [2, 1]
    chosen = torch.full((BATCH * LENGTH, count), -1)
    for row in range(BATCH * LENGTH):
        blocks = torch.randperm(16 // size)[: count - 1]
        chosen[row, : count - 1] = blocks
    chosen[1, 1] = -1  # ends the list
    full_table = torch.tensor([[3, 1], [0, 6]], dtype=torch.int32)
    own_table = torch.tensor([[1, 0], [5, 2], [7, 3], [8, 4]], dtype=torch.int32)
    status = torch.full((BATCH * LENGTH, count + 1), 77, dtype=torch.int32)
    wanted = [t.clone() for t in (selection, own_rope, status)]
    totals = []
    for row in range(BATCH * LENGTH):
        b, s = divmod(row, LENGTH)
        seen = keys[b] - (queries[b] - 1 - s if s < queries[b] else 0)
        copied, total = [], 0
        for block in chosen[row].tolist():
            if block < 0:
                break
            if block * size >= seen:
                continue
            start = len(copied) * size
            for i in range(min(size, seen - block * size)):
                at, to = block * size + i, start + i
                page, place = full_table[b, at // FULL], at % FULL
                own = own_table[row, to // OWN], to % OWN
                wanted[0][own] = full[page, place]
                if rope:
                    wanted[1][own] = full_rope[page, place]
                total += 1
            copied.append(block)
        totals.append(total)
        if seen > 0:
            wanted[2][row] = torch.tensor(
                [*copied, *[-1] * (count - len(copied)), total]
            )
    shape = (BATCH * LENGTH, 1) if flat else (BATCH, LENGTH, 1)
    given = (
        own_rope,
        selection,
        own_table,
        status.reshape(*shape, -1),
        chosen.to(torch.int32).reshape(*shape, -1),
        full_rope,
        full,
        full_table,
        torch.tensor(keys, dtype=torch.int32),
        torch.tensor(queries, dtype=torch.int32),
    )
    found = both(
        lambda *t: torch_npu.npu_gather_selection_kv_cache(
            *t, selection_topk_block_size=size
        ),
        *given,
    )
    assert found.tolist() == totals
    assert torch.equal(selection, wanted[0]) and torch.equal(own_rope, wanted[1])
    assert torch.equal(given[3].reshape(wanted[2].shape), wanted[2])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"selection_topk_block_size": 3},
            "3 does not divide the 4 keys of a block of",
        ),
        ({"selection_kv_block_status": torch.zeros(2, 1, 2).int()}, "must have shape"),
        (
            {"full_kv_actual_seq": torch.ones(3).int()},
            "has 2 tokens, full_kv_actual_seq",
        ),
        ({"full_kv_cache": torch.zeros(3, 4, 5)}, "must be .blocks, size, 5."),
        (
            {"selection_topk_indices": torch.zeros(2, 3).int()},
            r"must be \(b, s, 1, k\)",
        ),
    ],
)
def test_errors(change, text) -> None:
    lengths = torch.ones(2, dtype=torch.int32)
    given = {
        "selection_k_rope": torch.zeros(2, 4, 2),
        "selection_kv_cache": torch.zeros(2, 4, 8),
        "selection_kv_block_table": torch.zeros(2, 1, dtype=torch.int32),
        "selection_kv_block_status": torch.zeros(2, 1, 4, dtype=torch.int32),
        "selection_topk_indices": torch.zeros(2, 1, 3, dtype=torch.int32),
        "full_k_rope": torch.zeros(3, 4, 2),
        "full_kv_cache": torch.zeros(3, 4, 8),
        "full_kv_block_table": torch.zeros(2, 2, dtype=torch.int32),
        "full_kv_actual_seq": lengths,
        "full_q_actual_seq": lengths,
        "selection_topk_block_size": 1,
    } | change
    with pytest.raises(RuntimeError, match=f"npu_gather_selection_kv_cache: .*{text}"):
        torch_npu.npu_gather_selection_kv_cache(**given)
