"""npu_moe_init_routing_group_quant: the rows of npu_moe_init_routing_v2, as float8."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled

ROWS, WIDTH, EXPERTS = 5, 300, 4


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(
    ("mode", "kind"), [(4, torch.float8_e5m2), (5, torch.float8_e4m3fn)]
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_groups(dtype, mode, kind, first) -> None:
    x = torch.randn(ROWS, WIDTH).to(dtype)
    x[2, :128] = 0
    experts = torch.stack([torch.randperm(EXPERTS)[:2] for _ in range(ROWS)]).int()
    settings = {
        "expert_num": EXPERTS,
        "active_expert_range": [first, EXPERTS],
        "expert_tokens_num_type": 1,
        "expert_tokens_num_flag": True,
        "drop_pad_mode": 0,
        "row_idx_type": 0,
        "active_num": ROWS * 2,
    }
    plain = torch_npu.npu_moe_init_routing_v2(x, experts, **settings)

    def function(x, experts):
        return torch_npu.npu_moe_init_routing_group_quant(
            x, experts, quant_mode=mode, group_size=128, **settings
        )

    for run in (function, compiled(function)):
        rows, places, sizes, scales = run(x, experts)
        assert rows.dtype == kind and scales.shape == (ROWS * 2, 3)
        assert torch.equal(places, plain[1]) and torch.equal(sizes, plain[2])
        for group in range(3):
            part = slice(group * 128, min(group * 128 + 128, WIDTH))
            wanted = plain[0][:, part].double()
            most = wanted.abs().amax(-1)
            scale = scales[:, group].double()
            torch.testing.assert_close(
                scale, most / torch.finfo(kind).max, atol=1e-7, rtol=1e-5
            )
            found = rows[:, part].double() * scale.unsqueeze(-1)
            step = torch.finfo(kind).eps * most.unsqueeze(-1)
            assert ((found - wanted).abs() <= step).all()


@pytest.mark.parametrize("mode", [-1, 1, 2, 3])
def test_other_modes_are_those_of_the_second_version(mode) -> None:
    x, experts = torch.randn(4, 8), torch.tensor([[0, 1], [1, 2], [3, 0], [2, 1]]).int()
    found = torch_npu.npu_moe_init_routing_group_quant(
        x, experts, expert_num=4, quant_mode=mode
    )
    wanted = torch_npu.npu_moe_init_routing_v2(
        x, experts, expert_num=4, quant_mode=mode
    )
    for a, b in zip(found, wanted):
        assert a.dtype == b.dtype
        assert torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def test_errors() -> None:
    x, experts = torch.randn(4, 8), torch.zeros(4, 1, dtype=torch.int32)
    name = "npu_moe_init_routing_group_quant"
    operator = torch_npu.npu_moe_init_routing_group_quant
    with pytest.raises(RuntimeError, match=f"{name}: quant_mode must be .*, got 6"):
        operator(x, experts, expert_num=1, quant_mode=6)
    for more, text in (
        ({"group_size": 64}, "group_size must be 128, got 64"),
        ({"scale": torch.ones(4)}, "scale must be None in quant_mode 5"),
        ({"drop_pad_mode": 3}, "no such drop_pad_mode: 3"),
    ):
        with pytest.raises(RuntimeError, match=f"{name}: .*{text}"):
            operator(x, experts, expert_num=1, quant_mode=5, **more)
