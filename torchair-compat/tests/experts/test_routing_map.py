"""Rows by a table of choices, and copies of experts, equal loops in Python."""

from __future__ import annotations

import math

import pytest
import torch

import torch_npu
from pictures import compiled

MAP = torch.tensor([[1, 0, 1], [0, 1, 1], [1, 0, 0], [0, 0, 1]], dtype=torch.bool)
ROWS, EXPERTS = MAP.shape
ORDER = [(e, r) for e in range(EXPERTS) for r in range(ROWS) if MAP[r, e]]
TOKENS, PROBS = torch.randn(ROWS, 5), torch.rand(ROWS, EXPERTS)


def permuted(tokens, table, probs):
    return torch_npu.npu_moe_token_permute_with_routing_map(
        tokens, table, probs=probs, num_out_tokens=len(ORDER)
    )


def restored(rows, places, table, probs):
    return torch_npu.npu_moe_token_unpermute_with_routing_map(
        rows, places, [ROWS, 5], probs=probs, routing_map=table
    )


@pytest.mark.parametrize("table", [MAP, MAP.to(torch.int8)])
def test_there_and_back(table) -> None:
    wanted = torch.stack([TOKENS[r] for _, r in ORDER])
    weights = torch.stack([PROBS[r, e] for e, r in ORDER])
    back = torch.zeros(ROWS, 5, dtype=torch.double)
    for (expert, row), line in zip(ORDER, wanted):
        back[row] += line.double() * PROBS[row, expert].double()
    for there, home in ((permuted, restored), (compiled(permuted), compiled(restored))):
        rows, probs, places = there(TOKENS, table, PROBS)
        assert torch.equal(rows, wanted)
        assert torch.equal(probs, weights)
        torch.testing.assert_close(home(rows, places, table, PROBS), back.float())
    rows, none, places = permuted(TOKENS, table, None)
    assert none.numel() == 0
    chosen = TOKENS * MAP.sum(1, keepdim=True)
    torch.testing.assert_close(restored(rows, places, table, None), chosen)


def test_equal_numbers_of_choices_need_no_table() -> None:
    table = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]).bool()
    rows, _, places = torch_npu.npu_moe_token_permute_with_routing_map(
        TOKENS, table, num_out_tokens=8
    )
    back = torch_npu.npu_moe_token_unpermute_with_routing_map(rows, places, [ROWS, 5])
    torch.testing.assert_close(back, TOKENS * 2)


def test_capacity() -> None:
    rows, probs, places = torch_npu.npu_moe_token_permute_with_routing_map(
        TOKENS, MAP, probs=PROBS, num_out_tokens=6, drop_and_pad=True
    )
    # Two rows of each expert: those that choose it first, then the others.
    sources = [0, 2, 1, 0, 0, 1]
    assert places.tolist() == sources
    assert torch.equal(rows, TOKENS[sources])
    experts = [0, 0, 1, 1, 2, 2]
    assert torch.equal(probs, PROBS[sources, experts])
    back = torch_npu.npu_moe_token_unpermute_with_routing_map(
        rows, places, [ROWS, 5], probs=PROBS, routing_map=MAP, drop_and_pad=True
    )
    wanted = torch.zeros(ROWS, 5)
    for source, expert in zip(sources, experts):
        wanted[source] += TOKENS[source] * PROBS[source, expert]
    torch.testing.assert_close(back, wanted)


@pytest.mark.parametrize("mode", [0, 1])
def test_copies_of_experts(mode) -> None:
    ids = torch.randint(0, 5, (6, 3))
    counts = torch.tensor([1, 2, 3, 4, 2])
    table = torch.cat([counts[:, None], torch.arange(20).reshape(5, 4)], 1).int()
    scales, limit = torch.rand(6, 3), torch.rand(1, 3) / 3
    active = torch.tensor([1, 1, 1, 1, 0, 0]).bool()
    told = {"local_rank_id": 5, "world_size": 8} if mode == 0 else {}

    def function(ids, table, scales, limit, active):
        return torch_npu.npu_moe_update_expert(
            ids,
            table,
            expert_scales=scales,
            pruning_threshold=limit,
            active_mask=active,
            balance_mode=mode,
            **told,
        )

    for run in (function, compiled(function)):
        copies, stays = run(ids, table, scales, limit, active)
        for row in range(6):
            for place in range(3):
                expert = ids[row, place]
                count = int(counts[expert])
                copy = row % count if mode else 5 // math.ceil(8 / count)
                assert copies[row, place] == table[expert, 1 + copy]
                kept = scales[row, place] >= limit[0, place] * scales[row].sum()
                assert stays[row, place] == (kept and active[row])


def test_wrong_arguments() -> None:
    there = torch_npu.npu_moe_token_permute_with_routing_map
    for change, text in (
        ({"num_out_tokens": None}, "num_out_tokens is needed"),
        ({"num_out_tokens": 13}, "num_out_tokens must be from 0 to 12, got 13"),
        ({"routing_map": MAP[:2]}, "routing_map must be .4, experts."),
        ({"probs": PROBS[:2]}, "probs must have shape"),
    ):
        given = {"routing_map": MAP, "num_out_tokens": 6, **change}
        with pytest.raises(RuntimeError, match=f"permute_with_routing_map: .*{text}"):
            there(TOKENS, **given)
    places = torch.arange(6)
    for change, text in (
        ({"routing_map": None}, "probs needs routing_map"),
        ({"restore_shape": [4]}, "restore_shape must be .rows, 5."),
        ({"sorted_indices": places[:3]}, "sorted_indices must have shape"),
    ):
        given = {"sorted_indices": places, "restore_shape": [4, 5], "probs": PROBS}
        given |= {"routing_map": MAP, **change}
        with pytest.raises(RuntimeError, match=f"unpermute_with_routing_map: .*{text}"):
            torch_npu.npu_moe_token_unpermute_with_routing_map(
                torch.randn(6, 5), **given
            )
    ids, table = torch.zeros(2, 3).int(), torch.ones(4, 2).int()
    for change, text in (
        ({"balance_mode": 2}, "balance_mode must be 0 or 1, got 2"),
        ({"world_size": 0}, "world_size must be positive"),
        ({"local_rank_id": 4}, "local_rank_id must be from 0 to 3, got 4"),
        ({"active_mask": torch.ones(2).bool()}, "active_mask needs expert_scales"),
        ({"expert_scales": torch.ones(2, 3)}, "go together"),
    ):
        given = {"world_size": 4, "local_rank_id": 1, **change}
        with pytest.raises(RuntimeError, match=f"npu_moe_update_expert: .*{text}"):
            torch_npu.npu_moe_update_expert(ids, table, **given)
