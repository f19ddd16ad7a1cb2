"""Rows that npu_moe_init_routing_v2 quantises to floats of eight and four bits, against
lists of the types' numbers in float64, in graphs and outside."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import torch_npu
from small_numbers import (
    LARGEST,
    MxReference,
    both,
    check_rows,
    codes_of,
    hifloat8_values,
    round_to,
    values_of,
)

ROWS, K, EXPERTS, WIDTH = 5, 2, 6, 200
SPAN = [1, 5]  # choices of other experts have no rows


def inputs(dtype=torch.bfloat16):
    torch.manual_seed(4)
    x = (torch.randn(ROWS, WIDTH) * torch.exp2(torch.randint(-4, 4, (ROWS, 1)))).to(
        dtype
    )
    x[1, :64] = 0
    return x, torch.randint(0, EXPERTS, (ROWS, K), dtype=torch.int32)


def tokens(experts: torch.Tensor) -> list[int]:
    """The token of each row of the result, in the order of experts."""
    flat = experts.flatten().tolist()
    order = sorted(range(len(flat)), key=lambda choice: (flat[choice], choice))
    return [choice // K for choice in order if SPAN[0] <= flat[choice] < SPAN[1]]


def routed(mode, x, experts, **more):
    def function(x, experts):
        return torch_npu.npu_moe_init_routing_v2(
            x, experts, quant_mode=mode, expert_num=EXPERTS, active_expert_range=SPAN,
            expert_tokens_num_type=1, expert_tokens_num_flag=True, **more,
        )  # fmt: skip

    own = tokens(experts)
    for values, _, _, scales in both(function, x, experts):
        assert values.shape[0] == scales.shape[0] == ROWS * K
        for made in (values, scales):
            rest = made[len(own) :]
            assert not (
                rest if rest.dtype.itemsize > 1 else rest.view(torch.uint8)
            ).any()
        yield values[: len(own)], scales[: len(own)], x[own]


class RoundedUp(MxReference):
    """Blocks whose largest magnitude counts in bfloat16, rounded towards zero, for rows of
    float16."""

    def __init__(self, name: str, half: bool) -> None:
        super().__init__(name, algorithm=1)
        self.half = half

    def scale(self, top: float, floor: float = 0.0) -> int:
        if self.half:
            bits = np.float32(top).view(np.uint32) & np.uint32(0xFFFF0000)
            top = float(bits.view(np.float32))
        return super().scale(top, floor)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    ("mode", "name"),
    [
        (2, "float8_e5m2"),
        (3, "float8_e4m3fn"),
        (16, "float8_e5m2"),
        (17, "float8_e4m3fn"),
    ],
)
def test_blocks_with_powers_of_two(mode, name, dtype) -> None:
    x, experts = inputs(dtype)
    reference = RoundedUp(name, dtype == torch.float16)
    for values, scales, rows in routed(mode, x, experts):
        assert scales.dtype == torch.float8_e8m0fnu and scales.shape[1] == 8
        wanted = reference.rows(rows, floor=1e-4 if mode > 15 else 0.0)
        check_rows(
            (values, scales.view(torch.uint8).unflatten(-1, (-1, 2))), wanted, name
        )


def test_four_bits() -> None:
    x, experts = inputs()
    name = "float4_e2m1fn_x2"
    for values, scales, rows in routed(9, x, experts):
        assert scales.shape[1:] == (4, 2) and values.shape[1] == WIDTH // 2
        check_rows((values, scales), MxReference(name).rows(rows), name)


@pytest.mark.parametrize("mode", [6, 7, 8])
def test_hifloat8(mode) -> None:
    x, experts = inputs()
    scale = torch.tensor([0.7])
    grid = hifloat8_values()
    order = np.argsort(grid)
    order = order[np.isfinite(grid[order])]
    more = {"scale": scale} if mode == 7 else {}
    for values, scales, rows in routed(mode, x, experts, **more):
        wide = rows.float()
        if mode == 7:
            wide = wide * scale
        if mode == 8:
            factor = rows.double().abs().amax(-1) / 32768
            torch.testing.assert_close(scales.double(), factor, rtol=1e-6, atol=0)
            wide = wide / torch.where(scales == 0, 1.0, scales).unsqueeze(-1)
        else:
            assert not scales.any()
        place = round_to(wide.double().numpy(), grid[order], "round")
        codes = order[place] | (np.signbit(wide.numpy()) & (order[place] > 0)) << 7
        np.testing.assert_array_equal(values.int().numpy(), codes)


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        (11, "float8_e5m2"),
        (12, "float8_e4m3fn"),
        (4, "float8_e5m2"),
        (5, "float8_e4m3fn"),
        (14, "float8_e5m2"),
        (15, "float8_e4m3fn"),
    ],
)
def test_blocks_of_128(mode, name) -> None:
    x, experts = inputs()
    x[2, 128:] = 1e-7
    for values, scales, rows in routed(mode, x, experts):
        found = scales if mode < 10 or mode > 13 else scales.flatten(-2)
        assert found.shape[1] == 2
        for part, columns in enumerate((slice(0, 128), slice(128, WIDTH))):
            top = rows[:, columns].double().abs().amax(-1)
            top = top.clamp(min=1e-4) if mode > 13 else top
            scale = top / LARGEST[name]
            if mode < 10 or mode > 13:
                scale = torch.where(scale == 0, 0.0, torch.exp2(scale.log2().ceil()))
            torch.testing.assert_close(
                found[:, part].double(), scale, rtol=1e-6, atol=0
            )
            safe = torch.where(found[:, part] == 0, 1.0, found[:, part]).unsqueeze(-1)
            quotients = (rows[:, columns].float() / safe).double().numpy()
            place = round_to(quotients, values_of(name))
            codes = place | np.signbit(quotients) << 7
            np.testing.assert_array_equal(codes_of(values[:, columns], name), codes)


@pytest.mark.parametrize(
    ("number", "dtype"),
    [(None, torch.float8_e4m3fn), (None, torch.float8_e5m2), (296, None), (290, None)],
)
def test_rows_that_are_small_already(number, dtype) -> None:
    _, experts = inputs()
    x = torch.randint(0, 120, (ROWS, WIDTH), dtype=torch.uint8)
    blocks = -(-WIDTH * (2 if number == 296 else 1) // 64)
    scale = torch.randint(1, 200, (ROWS, blocks, 2), dtype=torch.uint8)
    given = x if dtype is None else x.view(dtype)
    plain = number == 290
    more = {"scale": torch.rand(ROWS) if plain else scale, "x_dtype": number}
    for values, scales, _ in routed(-1, given, experts, **more):
        own = tokens(experts)
        assert values.dtype == given.dtype
        assert torch.equal(values.view(torch.uint8), x[own])
        assert torch.equal(scales, more["scale"][own])
