"""MX blocks along two axes, of tiles, and of groups of rows, against loops in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

import torch_npu
from small_numbers import (
    MxReference,
    both,
    check_rows,
    codes_of,
    example,
    round_to,
    values_of,
)


@pytest.mark.parametrize("name", ["float8_e5m2", "float4_e2m1fn_x2"])
def test_two_axes(name) -> None:
    x = example(2, 40, 70)
    number = getattr(torch_npu, name)

    def quantise(x):
        return torch_npu.npu_dynamic_mx_quant_with_dual_axis(x, dst_type=number)

    codes, scales = MxReference(name).rows(x.mT)
    for found in both(quantise, x):
        check_rows(found[:2], MxReference(name).rows(x), name)
        np.testing.assert_array_equal(codes_of(found[2], name), codes.swapaxes(-1, -2))
        pairs = found[3].movedim(-3, -2).flatten(-2)[..., : scales.shape[-1]]
        np.testing.assert_array_equal(pairs.numpy(), scales)


def tile_reference(x: torch.Tensor, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The codes of (m, n), and the scale of each tile of 32 x 32."""
    reference, grid = MxReference(name), values_of(name)
    values = x.double().numpy()
    m, n = values.shape
    scales = np.zeros((-(-m // 32), -(-n // 32)), dtype=np.int64)
    codes = np.zeros((m, n), dtype=np.int64)
    for i, j in np.ndindex(*scales.shape):
        tile = values[i * 32 : i * 32 + 32, j * 32 : j * 32 + 32]
        scales[i, j] = reference.scale(np.abs(tile).max())
        quotients = tile / 2.0 ** (scales[i, j] - 127)
        place = round_to(quotients, grid)
        sign = np.signbit(tile).astype(np.int64)
        bits = {"float8_e4m3fn": 7, "float4_e2m1fn_x2": 3}[name]
        codes[i * 32 : i * 32 + 32, j * 32 : j * 32 + 32] = place | sign << bits
    return codes, scales


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float4_e2m1fn_x2"])
def test_tiles(name) -> None:
    x = example(40, 70)
    number = getattr(torch_npu, name)

    def quantise(x):
        return torch_npu.npu_dynamic_block_mx_quant(x, dst_type=number)

    codes, scales = tile_reference(x, name)
    for stored, rows, columns in both(quantise, x):
        np.testing.assert_array_equal(codes_of(stored, name), codes)
        wide = scales.repeat(32, 0)[:40]
        np.testing.assert_array_equal(rows.flatten(-2).numpy()[:, :3], wide)
        wide = scales.repeat(32, 1)[:, :70]
        np.testing.assert_array_equal(columns.movedim(1, 2)[0].numpy(), wide)


def group_reference(x: torch.Tensor, ends: list[int], name: str):
    """The codes of (rows, n), and the scales by the rule of the operator's text."""
    codes = np.zeros(x.shape, dtype=np.int64)
    scales = np.zeros((x.shape[0] // 64 + len(ends), x.shape[1], 2), dtype=np.int64)
    start = 0
    for group, end in enumerate(ends):
        if end > start:
            made, found = MxReference(name).rows(x[start:end].T)
            codes[start:end] = made.T
            for block in range(found.shape[-1]):
                pair = start // 64 + group + block // 2
                scales[pair, :, block % 2] = found[:, block]
        start = end
    return codes, scales


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float4_e2m1fn_x2"])
def test_groups_of_rows(name) -> None:
    x, ends = example(150, 6, dtype=torch.float32), [3, 3, 100, 150]
    number = getattr(torch_npu, name)

    def quantise(x, ends):
        return torch_npu.npu_grouped_dynamic_mx_quant(x, ends, dst_type=number)

    codes, scales = group_reference(x, ends, name)
    for stored, found in both(quantise, x, torch.tensor(ends)):
        np.testing.assert_array_equal(codes_of(stored, name), codes)
        np.testing.assert_array_equal(found.numpy(), scales)


def test_gate_along_two_axes() -> None:
    x, ends = example(70, 24), [30, 70]
    name = "float8_e4m3fn"

    def quantise(x, ends):
        return torch_npu.npu_swiglu_mx_quant_with_dual_axis(
            x, group_index=ends, scale_alg=0
        )

    left, right = x.float().chunk(2, -1)
    gated = (functional.silu(left) * right).bfloat16()
    codes, scales = group_reference(gated, ends, name)
    for found in both(quantise, x, torch.tensor(ends)):
        check_rows(found[:2], MxReference(name).rows(gated), name)
        np.testing.assert_array_equal(codes_of(found[2], name), codes)
        np.testing.assert_array_equal(found[3].numpy(), scales)


def test_blocks_of_groups() -> None:
    torch.manual_seed(0)
    x, ends = torch.randn(300, 200) * 100, [10, 10, 150, 300]

    def quantise(x, ends):
        return torch_npu.npu_grouped_dynamic_block_quant(
            x, ends, row_block_size=128, min_scale=0.25
        )

    wanted = np.zeros((300 // 128 + 4, 2))
    exact = torch.zeros(300, 200).double()
    start = 0
    for group, end in enumerate(ends):
        for row in range(start, end, 128):
            place = start // 128 + group + (row - start) // 128
            for block, column in enumerate((0, 128)):
                there = slice(row, min(row + 128, end)), slice(column, column + 128)
                part = x[there].double()
                scale = min(part.abs().max().item() / 57344, 4)
                wanted[place, block] = scale
                exact[there] = part / scale
        start = end
    for stored, scales in both(quantise, x, torch.tensor(ends)):
        np.testing.assert_allclose(scales.numpy(), wanted, rtol=1e-6)
        error = (stored.double() - exact).abs()
        assert (error <= exact.abs() / 8 + 1e-6).all()


@pytest.mark.parametrize(
    ("name", "axis"), [("float8_e4m3fn", -1), ("float4_e2m1fn_x2", 0)]
)
def test_back_from_blocks(name, axis) -> None:
    x, number = example(70, 40), getattr(torch_npu, name)
    made, scales = torch_npu.npu_dynamic_mx_quant(x, axis=axis, dst_type=number)

    def undo(made, scales):
        return torch_npu.npu_anti_mx_quant(
            made, scales, axis=axis, dst_type=torch.float32, src_type=number
        )

    wide = x.float().movedim(axis, -1)
    reference = MxReference(name)
    codes, powers = reference.rows(wide)
    bits = 3 if "float4" in name else 7
    grid = values_of(name)
    values = grid[codes & (2**bits - 1)] * np.where(codes >> bits, -1.0, 1.0)
    factor = 2.0 ** (powers.repeat(32, -1)[..., : wide.shape[-1]] - 127)
    for found in both(undo, made, scales):
        got = found.movedim(axis, -1).numpy()
        np.testing.assert_array_equal(got, (values * factor).astype(np.float32))
