"""npu_swiglu_group_quant against loops in float64, eager and compiled."""

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
    hifloat8_values,
    values_of,
)

SIZES = [3, 0, 2]
ROWS, N = 7, 160  # two rows belong to no group
F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
NUMBERS = {"float8_e4m3fn": 292, "float8_e5m2": 23}


def inputs(dtype, *rows: int):
    torch.manual_seed(3)
    x = (torch.randn(*rows, 2 * N) * 4).to(dtype)
    return x, torch.rand(*rows, 1) + 0.2


def gate(x, weight=None, limit=None):
    """The gate in float64, before and after the weight."""
    left, right = x.double().chunk(2, -1)
    if limit is not None:
        left, right = left.clamp(max=limit), right.clamp(-limit, limit)
    made = left / (1 + (-left).exp()) * right
    return made, made if weight is None else made * weight.double()


def check_near(values: torch.Tensor, wanted: torch.Tensor, grid: np.ndarray) -> None:
    """The values are those of a grid that are nearest, but for numbers that f32 rounds to
    the other side of a middle."""
    grid = np.concatenate([-grid[::-1], grid])
    above = np.clip(np.searchsorted(grid, wanted.numpy()), 1, len(grid) - 1)
    least = np.minimum(
        np.abs(grid[above] - wanted.numpy()), np.abs(grid[above - 1] - wanted.numpy())
    )
    found = np.abs(values.double().numpy() - wanted.numpy())
    assert (found <= least + 1e-5 * np.abs(wanted.numpy()) + 1e-12).all()


@pytest.mark.parametrize("limit", [None, 2.0])
@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("rounded", [False, True])
def test_blocks(name, rounded, limit) -> None:
    x, weight = inputs(BF16, ROWS)
    x[0] = 0

    def function(x, weight, sizes):
        more = {} if limit is None else {"clamp_limit": limit}
        return torch_npu.npu_swiglu_group_quant(
            x, weight=weight, group_index=sizes, dst_type=NUMBERS[name],
            round_scale=rounded, output_origin=True, **more,
        )  # fmt: skip

    origin, wanted = gate(x, weight, limit)
    inside = sum(SIZES)
    for values, scales, kept in both(function, x, weight, torch.tensor(SIZES)):
        assert scales.shape == (ROWS, 2) and scales.dtype == F32
        assert kept.dtype == BF16 and not kept[inside:].any()
        torch.testing.assert_close(
            kept[:inside].double(), origin[:inside], rtol=8e-3, atol=1e-6
        )
        assert not scales[inside:].any() and not values.float()[inside:].any()
        for part, columns in enumerate((slice(0, 128), slice(128, N))):
            top = wanted[:inside, columns].abs().amax(-1).clamp(min=1e-4)
            scale = top / LARGEST[name]
            if rounded:
                scale = torch.exp2(scale.log2().ceil())
            torch.testing.assert_close(
                scales[:inside, part].double(), scale, rtol=1e-5, atol=0
            )
            quotients = (
                wanted[:inside, columns] / scales[:inside, part : part + 1].double()
            )
            check_near(values[:inside, columns].float(), quotients, values_of(name))


@pytest.mark.parametrize("name", NUMBERS)
def test_blocks_with_infinities(name) -> None:
    x, _ = inputs(F16, ROWS)
    x[1, N], x[1, 0] = float("inf"), 1.0
    values, scales, kept = torch_npu.npu_swiglu_group_quant(x, dst_type=NUMBERS[name])
    assert scales.isfinite().all() and kept.shape == (0,)
    top = gate(x)[1][1, 1:128].abs().max() / LARGEST[name]
    torch.testing.assert_close(scales[1, 0].double(), top, rtol=1e-5, atol=0)
    assert values[1, 0].float() == LARGEST[name]


@pytest.mark.parametrize("name", NUMBERS)
def test_blocks_with_powers_of_two(name) -> None:
    x, weight = inputs(BF16, 2, ROWS)

    def function(x, weight):
        return torch_npu.npu_swiglu_group_quant(
            x, weight=weight, dst_type=NUMBERS[name], quant_mode=1, round_scale=True
        )

    x[0, 0] = 0
    # Rounding to f32 is not the subject: the reference takes the operator's own f32.
    left, right = x.float().chunk(2, -1)
    made = torch.nn.functional.silu(left) * right * weight
    wanted = MxReference(name, algorithm=1).rows(made, floor=1e-4)
    values, pairs, _ = function(x, weight)
    check_rows((values, pairs), wanted, name)
    assert pairs.shape == (2, ROWS, 3, 2)
    graph = list(both(function, x, weight))[1]
    torch.testing.assert_close(graph[1].float(), pairs.float(), rtol=0, atol=1)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("dtype", [F32, F16, BF16])
def test_given_scales(dtype, grouped) -> None:
    x, weight = inputs(dtype, ROWS)
    scale = torch.rand(len(SIZES) if grouped else 1) + 0.5
    sizes = torch.tensor(SIZES) if grouped else None

    def function(x, weight, scale, sizes):
        return torch_npu.npu_swiglu_group_quant(
            x, weight=weight, scale=scale, group_index=sizes, quant_mode=2
        )

    wanted = gate(x, weight)[1]
    group = [0] * 3 + [2] * 2 if grouped else [0] * ROWS
    for values, scales, _ in both(function, x, weight, scale, sizes):
        assert scales.shape == (0,) and values.dtype == torch.uint8
        found = torch_npu.HiFloat8Tensor(data=values).float()
        assert not found[len(group) :].any()
        quotients = wanted[: len(group)] * scale.double()[group].unsqueeze(-1)
        grid = hifloat8_values()
        check_near(found[: len(group)], quotients, np.sort(grid[np.isfinite(grid)]))


@pytest.mark.parametrize("grouped", [False, True])
def test_scales_of_groups(grouped) -> None:
    x, weight = inputs(F32, ROWS)
    sizes = torch.tensor(SIZES) if grouped else None

    def function(x, weight, sizes):
        return torch_npu.npu_swiglu_group_quant(
            x, weight=weight, group_index=sizes, quant_mode=3, dst_type_max=15.0
        )

    wanted = gate(x, weight)[1]
    parts = [wanted[:3], wanted[3:3], wanted[3:5]] if grouped else [wanted]
    tops = [part.abs().max() if part.numel() else 0.0 for part in parts]
    most = torch.tensor(tops, dtype=torch.float64).clamp(min=1e-8) / 15
    group = [0] * 3 + [2] * 2 if grouped else [0] * ROWS
    for values, scales, _ in both(function, x, weight, sizes):
        torch.testing.assert_close(scales.double(), most, rtol=1e-5, atol=0)
        found = torch_npu.HiFloat8Tensor(data=values).float()
        assert not found[len(group) :].any()
        quotients = wanted[: len(group)] / scales.double()[group].unsqueeze(-1)
        grid = hifloat8_values()
        check_near(found[: len(group)], quotients, np.sort(grid[np.isfinite(grid)]))


X = torch.zeros(4, 64, dtype=F16)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"quant_mode": 4}, "quant_mode must be 0 to 3, got 4"),
        ({"x": X.float()}, "x must be float16, bfloat16, got torch.float32"),
        ({"x": X[0]}, "x must have 2 to 8 dimensions, got 1"),
        ({"x": X[:, :63]}, "the last dimension of x must be even, got 63"),
        ({"block_size": 32}, "block_size must be 0 or 128, got 32"),
        ({"quant_mode": 1}, "quant_mode 1 needs round_scale"),
        ({"clamp_limit": 0.0}, "clamp_limit must be -1 or positive, got 0.0"),
        (
            {"dst_type": 290},
            "dst_type must be float8_e4m3fn, float8_e5m2, got hifloat8",
        ),
        ({"quant_mode": 2}, "quant_mode 2 needs scale"),
        ({"quant_mode": 2, "scale": torch.ones(2)}, r"scale must have shape \(1,\)"),
        ({"quant_mode": 3, "dst_type_max": 0.0}, "dst_type_max must be positive"),
        (
            {"weight": torch.ones(3)},
            r"weight must have a number for each row of \(4,\)",
        ),
        ({"weight": torch.ones(4).half()}, "weight must be float32"),
        ({"group_index": torch.tensor([4.0])}, "group_index must be int64"),
        ({"group_index": torch.tensor(4)}, "group_index must have one dimension"),
    ],
)
def test_wrong(change, text) -> None:
    with pytest.raises(RuntimeError, match=f"npu_swiglu_group_quant: {text}"):
        torch_npu.npu_swiglu_group_quant(**{"x": X, **change})
