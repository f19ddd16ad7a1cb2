"""npu_moe_init_routing_quant against a loop over choices in float64."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from agreement import both

ROWS, K, EXPERTS, WIDTH = 6, 3, 5, 8


def choices(experts):
    """(expert, choice), in the order of the result."""
    return sorted((int(e), i) for i, e in enumerate(experts.flatten()))


def tokens(dtype=torch.float32):
    experts = torch.randint(0, EXPERTS, (ROWS, K), dtype=torch.int32)
    return torch.randn(ROWS, WIDTH).to(dtype), experts


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scaled", [None, (1, WIDTH), (EXPERTS, WIDTH)])
def test_a_scale_for_each_row(dtype, scaled) -> None:
    x, experts = tokens(dtype)
    table = None if scaled is None else torch.rand(scaled) + 0.5

    def function(x, experts, table):
        return torch_npu.npu_moe_init_routing_quant(
            x,
            experts,
            scale=table,
            active_num=0,
            expert_num=EXPERTS,
            expert_tokens_num_mode=2,
        )

    rows, places, counts, before, scales = both(
        function, x, experts, table, atol=1, rtol=0
    )
    assert before.numel() == 0 and counts.dtype == places.dtype == torch.int32
    assert counts.tolist() == [int((experts == e).sum()) for e in range(EXPERTS)]
    for row, (expert, choice) in enumerate(choices(experts)):
        wide = x[choice // K].double()
        if table is not None:
            wide = wide * table[expert if len(table) > 1 else 0].double()
        assert int(places[choice]) == row
        scale = float(wide.abs().max() / 127)
        assert abs(float(scales[row]) - scale) < 1e-5
        assert (rows[row].double() * scale - wide).abs().max() <= 0.51 * scale + 1e-6


@pytest.mark.parametrize("offset", [None, torch.tensor([2.0])])
def test_one_scale_and_ends(offset) -> None:
    x, experts = tokens()
    rows, _, ends, _, scales = torch_npu.npu_moe_init_routing_quant(
        x,
        experts,
        scale=torch.tensor([20.0]),
        offset=offset,
        active_num=4,
        expert_num=EXPERTS,
        expert_tokens_num_mode=1,
        quant_mode=0,
    )
    wanted = [
        x[i // K].double() * 20 + (offset or 0.0) for _, i in choices(experts)[:4]
    ]
    made = torch.round(torch.stack(wanted)).clamp(-128, 127)
    assert (rows.double() - made).abs().max() <= 1 and scales.numel() == 0
    counts = torch.tensor([int((experts == e).sum()) for e in range(EXPERTS)])
    assert torch.equal(ends, counts.cumsum(0).int())


def test_a_capacity() -> None:
    x, experts = tokens()
    rows, places, none, before, scales = torch_npu.npu_moe_init_routing_quant(
        x,
        experts,
        expert_num=EXPERTS,
        expert_capacity=2,
        drop_pad_mode=1,
        expert_tokens_before_capacity_flag=True,
    )
    assert rows.shape == (EXPERTS, 2, WIDTH) and scales.shape == (EXPERTS * 2,)
    assert before.tolist() == [int((experts == e).sum()) for e in range(EXPERTS)]
    assert none.numel() == 0
    for choice, place in enumerate(places.tolist()):
        if place >= 0:
            near = rows.flatten(0, 1)[place].double() * scales[place].double()
            wide = x[choice // K].double()
            assert (near - wide).abs().max() <= 0.51 * float(scales[place]) + 1e-6


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"quant_mode": -1}, "quant_mode must be one of"),
        ({"drop_pad_mode": 2}, "drop_pad_mode must be one of"),
        ({"expert_tokens_num_mode": 3}, "expert_tokens_num_mode must be one of"),
        ({"active_num": -1}, "active_num must not be negative"),
    ],
)
def test_wrong_arguments(wrong, text) -> None:
    x, experts = tokens()
    given = {"expert_num": EXPERTS, "active_num": 0} | wrong
    with pytest.raises(RuntimeError, match=f"^npu_moe_init_routing_quant: {text}"):
        torch_npu.npu_moe_init_routing_quant(x, experts, **given)
