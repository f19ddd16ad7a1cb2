"""Operators that quantise to MX formats against loops in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import torch_npu
from pictures import compiled
from small_numbers import MxReference, both, check_rows, example
from torchair._impl.operators.quantisation.small_floats import (
    scale_values,
    unpack_pairs,
)

TYPES = ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn_x2", "float4_e1m2fn_x2"]
HALF = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("dtype", [*HALF, torch.float32])
def test_rows(name, dtype) -> None:
    x = example(3, 90, dtype=dtype)
    number = getattr(torch_npu, name)

    def quantise(x):
        return torch_npu.npu_dynamic_mx_quant(x, dst_type=number)

    for found in both(quantise, x):
        check_rows(found, MxReference(name).rows(x), name)


@pytest.mark.parametrize("rounding", ["rint", "floor", "round"])
@pytest.mark.parametrize("name", TYPES[2:])
def test_roundings_of_four_bits(name, rounding) -> None:
    x = (torch.arange(-64, 64).reshape(2, 64) / 8).half()
    number = getattr(torch_npu, name)
    found = torch_npu.npu_dynamic_mx_quant(x, dst_type=number, round_mode=rounding)
    check_rows(found, MxReference(name, rounding).rows(x), name)


@pytest.mark.parametrize("size", [32, 64, 96])
@pytest.mark.parametrize("axis", [0, 1, -2, 2])
def test_axes_and_sizes(axis, size) -> None:
    """Two scales along the axis are the last dimension; an odd one is filled up with 0."""
    x = example(3, 130, 6)
    dtype = torch.float8_e5m2

    def quantise(x):
        return torch_npu.npu_dynamic_mx_quant(
            x, axis=axis, dst_type=dtype, block_size=size
        )

    codes, scales = MxReference("float8_e5m2", size=size).rows(x.movedim(axis, -1))
    for stored, pairs in both(quantise, x):
        assert stored.dtype == dtype
        blocks = -(-x.shape[axis] // size)
        shape = [*x.shape, 2]
        shape[axis % 3] = -(-blocks // 2)
        assert list(pairs.shape) == shape
        rows = pairs.movedim(axis % 3, -2)
        check_rows((stored.movedim(axis, -1), rows), (codes, scales), "float8_e5m2")


def test_four_bits_of_another_axis_are_packed_along_the_last() -> None:
    x = example(64, 6)
    stored, _ = torch_npu.npu_dynamic_mx_quant(x, axis=0)
    codes, _ = MxReference("float4_e2m1fn_x2").rows(x.t())
    np.testing.assert_array_equal(unpack_pairs(stored).t().numpy(), codes)


@pytest.mark.parametrize("name", TYPES[:2])
@pytest.mark.parametrize("floor", [0.0, 0.5])
def test_scales_of_quotients(name, floor) -> None:
    x = example(4, 64, dtype=torch.float16)
    number = getattr(torch_npu, name)

    def quantise(x):
        return torch_npu.npu_dynamic_mx_quant(
            x, dst_type=number, scale_alg=1, max_low_bound=floor
        )

    for found in both(quantise, x):
        check_rows(found, MxReference(name, algorithm=1).rows(x, floor), name)


@pytest.mark.parametrize("largest", [0.0, 6.0, 7.0, 8.5, 12.0])
def test_scales_of_quotients_of_four_bits(largest) -> None:
    x = example(4, 64)
    x[0, :32] = torch.linspace(-1.5, 1.5, 32)
    x[1, :32] = torch.linspace(-1.75, 1.75, 32)
    name = "float4_e2m1fn_x2"

    def quantise(x):
        return torch_npu.npu_dynamic_mx_quant(x, scale_alg=2, dst_type_max=largest)

    reference = MxReference(name, algorithm=2, largest=largest)
    for found in both(quantise, x):
        check_rows(found, reference.rows(x), name)


def test_a_block_with_an_infinity_has_no_scale() -> None:
    x = example(1, 128)
    x[0, 5], x[0, 70] = torch.inf, torch.nan
    stored, scales = torch_npu.npu_dynamic_mx_quant(x, dst_type=torch.float8_e4m3fn)
    bad = scales.flatten() == 255
    assert bad.tolist() == [True, False, True, False]
    values = stored.float() * scale_values(scales).flatten().repeat_interleave(32)
    assert values[0, :32].isnan().all() and values[0, 32:64].isfinite().all()


def test_symbolic_sizes() -> None:
    def quantise(x):
        return torch_npu.npu_dynamic_mx_quant(x, dst_type=torch.float8_e4m3fn)

    function = compiled(quantise, dynamic=True)
    for rows in (3, 5, 8):
        x = example(rows, 100)
        check_rows(function(x), MxReference("float8_e4m3fn").rows(x), "float8_e4m3fn")


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("rounding", ["rint", "floor", "round"])
def test_two_levels(dtype, rounding) -> None:
    x = example(3, 700, dtype=dtype)

    def quantise(x):
        return torch_npu.npu_dynamic_dual_level_mx_quant(x, round_mode=rounding)

    wide = x.double()
    first = torch.stack(
        [wide[:, :512].abs().amax(-1), wide[:, 512:].abs().amax(-1)], -1
    )
    first = (first.float() / 6).double()
    quotients = wide / first.repeat_interleave(512, -1)[:, :700]
    rows = quotients.float().to(dtype)
    wanted = MxReference("float4_e2m1fn_x2", rounding).rows(rows)
    for stored, level0, level1 in both(quantise, x):
        torch.testing.assert_close(level0.double(), first, atol=0, rtol=1e-6)
        check_rows((stored, level1), wanted, "float4_e2m1fn_x2")


@pytest.mark.parametrize(
    "options, text",
    [
        ({"axis": 2}, "axis must be one of 2 dimensions, got 2"),
        ({"dst_type": torch.int8}, r"dst_type must be .*, got int8 \(1\)"),
        ({"dst_type": 12345}, "dst_type must be .*, got 12345"),
        ({"block_size": 48}, "block_size must be a multiple of 32 up to 1024, got 48"),
        ({"round_mode": "ceil"}, "round_mode must be one of .*, got 'ceil'"),
        ({"scale_alg": 1}, "scale_alg must be one of"),
        ({"dst_type": torch.float8_e5m2, "scale_alg": 2}, "scale_alg must be one of"),
        ({"scale_alg": 2, "dst_type_max": 13.0}, "dst_type_max must be 0, or from 6"),
        (
            {"dst_type_max": 6.0},
            "dst_type_max must be 0, or from 6 to 12 with scale_alg",
        ),
        ({"max_low_bound": 0.5}, "max_low_bound must be 0 unless scale_alg is 1"),
        (
            {"dst_type": torch.float8_e4m3fn, "round_mode": "floor"},
            "round_mode must be",
        ),
    ],
)
def test_wrong_options(options, text) -> None:
    with pytest.raises(RuntimeError, match=f"npu_dynamic_mx_quant: {text}"):
        torch_npu.npu_dynamic_mx_quant(example(2, 64), **options)


def test_wrong_inputs() -> None:
    with pytest.raises(RuntimeError, match="the last dimension of input must be even"):
        torch_npu.npu_dynamic_mx_quant(example(2, 63))
    with pytest.raises(RuntimeError, match="input of float32 needs block_size 32"):
        torch_npu.npu_dynamic_mx_quant(torch.ones(2, 64), block_size=64)
    with pytest.raises(RuntimeError, match="smooth_scale must be None"):
        torch_npu.npu_dynamic_dual_level_mx_quant(
            example(2, 64), smooth_scale=torch.ones(2)
        )
