"""Operators that quantise rows, groups of rows, or a whole tensor, against float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

import torch_npu
from pictures import compiled
from small_numbers import LARGEST, hifloat8_values, round_to, values_of
from torchair._impl.operators.quantisation.integers import unpack_int4
from torchair._impl.operators.quantisation.small_floats import HIFLOAT8

TYPES = ["int8", "quint4x2", "float8_e4m3fn", "float8_e5m2", "hifloat8"]


def number_of(name: str):
    return torch_npu.hifloat8 if name == "hifloat8" else getattr(torch, name)


def most_of(name: str) -> float:
    return {"int8": 127.0, "quint4x2": 7.0, "hifloat8": 32768.0, **LARGEST}[name]


def numbers_in(stored: torch.Tensor, name: str) -> torch.Tensor:
    """The float64 values of stored elements."""
    if name == "quint4x2":
        return unpack_int4(stored).double()
    return (HIFLOAT8.decode(stored) if name == "hifloat8" else stored).double()


def check_rounded(found: torch.Tensor, exact: torch.Tensor, name: str) -> None:
    """Stored elements are the nearest of their type, but for errors of f32 at ties."""
    numbers = numbers_in(found, name)
    if name in ("int8", "quint4x2"):
        assert (numbers - exact).abs().max() <= 0.5 + 1e-3
        return
    grid = hifloat8_values()[:0x70] if name == "hifloat8" else values_of(name)
    grid = np.sort(grid[np.isfinite(grid)])
    places = round_to(exact.numpy(), grid, "rint")
    nearest = torch.from_numpy(np.copysign(grid[places], exact.numpy()))
    assert ((numbers - nearest).abs() > 1e-9).double().mean() < 0.06


def both(function, *arguments):
    yield function(*arguments)
    yield compiled(function)(*arguments)


def rows_of(mode: str, x: torch.Tensor) -> torch.Tensor:
    """The largest magnitude that each element is scaled by."""
    if mode == "pertensor":
        return x.abs().amax().reshape(1, 1, 1)
    return x.abs().amax(-2 if mode == "perchannel" else -1, keepdim=True)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, "perchannel") for name in TYPES),
        *(("int8", mode) for mode in ("pertoken", "pertensor")),
    ],
)
def test_dynamic_scales(mode, name) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 24, 16).bfloat16()
    smooth = torch.rand(24 if mode == "perchannel" else 16).bfloat16()
    options = {"dst_type": number_of(name), "quant_mode": mode}

    def quantise(x, smooth):
        return torch_npu.npu_dynamic_quant(x, smooth_scales=smooth, **options)

    along = smooth.unsqueeze(-1) if mode == "perchannel" else smooth
    wide = x.double() * along.double()
    scale = rows_of(mode, wide) / most_of(name)
    for made, found in both(quantise, x, smooth):
        wanted = scale.reshape(found.shape)
        torch.testing.assert_close(found.double(), wanted, rtol=1e-6, atol=0)
        check_rounded(made, wide / scale, name)


@pytest.mark.parametrize(
    ("dtype", "name"), [(torch.float16, "int8"), (torch.bfloat16, "quint4x2")]
)
def test_asymmetric_scales(dtype, name) -> None:
    torch.manual_seed(0)
    x = (torch.randn(3, 8, 16) + 2).to(dtype)
    smooth, ends = torch.rand(3, 16).to(dtype), torch.tensor([5, 5, 24])

    def quantise(x, smooth, ends):
        return torch_npu.npu_dynamic_quant_asymmetric(
            x, smooth_scales=smooth, group_index=ends, dst_type=number_of(name)
        )

    table = smooth.double()[torch.tensor([0] * 5 + [2] * 19)].reshape(3, 8, 16)
    wide, most = x.double() * table, most_of(name)
    top = wide.amax(-1)
    scale = (top - wide.amin(-1)) / (2 * most + 1)
    offset = most - top / scale
    exact = wide / scale.unsqueeze(-1) + offset.unsqueeze(-1)
    for made, *found in both(quantise, x, smooth, ends):
        for one, other in zip(found, (scale, offset), strict=True):
            torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)
        check_rounded(made, exact, name)


def test_equal_elements_have_an_offset() -> None:
    x = torch.full((2, 8), 3.0).half()
    made, scale, offset = torch_npu.npu_dynamic_quant_asymmetric(x)
    assert torch.equal((made - offset.unsqueeze(-1)) * scale.unsqueeze(-1), x.float())


@pytest.mark.parametrize(("mode", "counts"), [(0, True), (1, False)])
def test_gates_of_groups(mode, counts) -> None:
    torch.manual_seed(0)
    x, smooth = torch.randn(7, 32).bfloat16(), torch.randn(3, 16)
    sizes = torch.tensor([2, 0, 3], dtype=torch.int32)
    groups = sizes if counts else sizes.cumsum(0).int()
    offsets = torch.randn(3, 16) if mode == 0 else None

    def quantise(x, smooth, groups):
        return torch_npu.npu_swiglu_quant(
            x,
            smooth_scales=smooth,
            offsets=offsets,
            group_index=groups,
            activate_left=counts,
            quant_mode=mode,
            group_list_type=int(counts),
        )

    left, right = x.double().chunk(2, -1)
    gated = functional.silu(left) * right if counts else functional.silu(right) * left
    of_row = torch.tensor([0, 0, 2, 2, 2])
    wide = gated[:5] * smooth.double()[of_row]
    factor = 127 / wide.abs().amax(-1) if mode else torch.zeros(5).double()
    exact = wide * factor.unsqueeze(-1) if mode else wide + offsets.double()[of_row]
    for made, scale in both(quantise, x, smooth, groups):
        check_rounded(made[:5], exact, "int8")
        torch.testing.assert_close(scale[:5].double(), factor, rtol=1e-5, atol=0)
        assert not made[5:].any() and not scale[5:].any()


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("int8", "static"),
        ("float8_e4m3fn", "dynamic"),
        ("float8_e5m2", "static"),
        ("hifloat8", "dynamic"),
    ],
)
def test_gelu(name, mode) -> None:
    torch.manual_seed(0)
    x, scale, offset = torch.randn(5, 16) * 3, torch.rand(16) * 9, torch.randn(16)
    rounding = "round" if name == "hifloat8" else "rint"

    def quantise(x):
        made, found = torch_npu.npu_gelu_quant(
            x,
            input_scale=scale,
            input_offset=offset,
            approximate="tanh",
            quant_mode=mode,
            dst_type=number_of(name),
            round_mode=rounding,
        )
        return (made, found) if mode == "dynamic" else (made,)

    wide = functional.gelu(x.double(), approximate="tanh") * scale.double()
    steps = wide.abs().amax(-1, keepdim=True) / most_of(name)
    exact = wide + offset.double() if mode == "static" else wide / steps
    for made, *found in both(quantise, x):
        check_rounded(made, exact, name)
        if found:
            torch.testing.assert_close(
                found[0].double(), steps[:, 0], rtol=1e-5, atol=0
            )


@pytest.mark.parametrize(
    ("dtype", "approximate"),
    [(torch.float32, "none"), (torch.float16, "tanh"), (torch.bfloat16, "none")],
)
def test_gelu_times(dtype, approximate) -> None:
    x = torch.linspace(-4, 4, 64).reshape(2, 32).to(dtype)
    left, right = x.double().chunk(2, -1)
    wanted = functional.gelu(left, approximate=approximate) * right

    def product(x):
        return torch_npu.npu_gelu_mul(x, approximate=approximate)

    for found in both(product, x):
        torch.testing.assert_close(found, wanted.to(dtype))


def test_back_from_integers() -> None:
    torch.manual_seed(0)
    packed = torch.randint(-(2**31), 2**31 - 1, (3, 2), dtype=torch.int32)
    scale, offset = torch.randn(16), torch.randn(16)

    def undo(packed, scale, offset):
        return torch_npu.npu_anti_quant(
            packed,
            scale,
            offset=offset,
            dst_dtype=torch.bfloat16,
            src_dtype=torch.quint4x2,
        )

    wanted = (unpack_int4(packed).double() + offset.double()) * scale.double()
    for found in both(undo, packed, scale, offset):
        torch.testing.assert_close(found, wanted.bfloat16())
    x = torch.randint(-128, 128, (3, 5), dtype=torch.int8)
    found = torch_npu.npu_anti_quant(x, torch.tensor([0.5]))
    assert torch.equal(found, (x * 0.5).half())


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("float8_e4m3fn", torch.float32),
        ("float8_e5m2", torch.float16),
        ("hifloat8", torch.bfloat16),
    ],
)
def test_largest_of_groups(name, dtype) -> None:
    torch.manual_seed(0)
    x, scale = torch.randn(6, 3, 8).to(dtype), torch.rand(3) + 0.1
    ends = torch.tensor([2, 2, 5])

    def quantise(x, scale, ends):
        return torch_npu.npu_quant_max(
            x,
            scale,
            round_mode="round" if name == "hifloat8" else "rint",
            dst_dtype=number_of(name),
            group_list=ends,
        )

    of_row = torch.tensor([0, 0, 2, 2, 2])
    exact = x.double()[:5] / scale.double()[of_row].reshape(5, 1, 1)
    tops = torch.stack([x[:2].abs().amax(), x.new_zeros(()), x[2:5].abs().amax()])
    for made, top in both(quantise, x, scale, ends):
        check_rounded(made[:5], exact, name)
        assert not numbers_in(made[5:], name).any() and torch.equal(top, tops)
    made, top = torch_npu.npu_quant_max(x, scale[:1], dst_dtype=torch.float8_e5m2)
    assert torch.equal(top, x.abs().amax().reshape(1))


@pytest.mark.parametrize(("parts", "name"), [(False, "int8"), (True, "quint4x2")])
def test_rotated_rows(parts, name) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 64).bfloat16()
    matrix = torch.randn(*((2,) if parts else ()), 32, 32).bfloat16()

    def quantise(x, matrix):
        return torch_npu.npu_rotate_quant(x, matrix, dst_dtype=number_of(name))

    wide = torch.matmul(x.double().reshape(4, 2, 1, 32), matrix.double())
    wide = wide.reshape(4, 64)
    for made, scale in both(quantise, x, matrix):
        back = numbers_in(made, name) * scale.double().unsqueeze(-1)
        # Half a step, and the rounding to bfloat16 before it.
        error = (back - wide).abs() - wide.abs() / 256
        assert (error <= scale.double().unsqueeze(-1) * 0.5 + 1e-6).all()


def test_rotated_blocks_are_limited() -> None:
    torch.manual_seed(0)
    x, matrix = torch.randn(4, 64).bfloat16(), torch.eye(32).bfloat16()
    alpha = torch.tensor([0.5])
    parts = x.reshape(4, 2, 32)
    limit = parts.abs().amax(-1, keepdim=True) * 0.5
    limited = torch.minimum(torch.maximum(parts, -limit), limit).reshape(4, 64)

    def quantise(x, matrix, alpha):
        return torch_npu.npu_rotate_quant(
            x, matrix, alpha=alpha, dst_dtype=torch.float8_e4m3fn
        )

    wanted = torch_npu.npu_dynamic_mx_quant(limited, dst_type=torch.float8_e4m3fn)
    for found in both(quantise, x, matrix, alpha):
        assert torch.equal(found[0].view(torch.uint8), wanted[0].view(torch.uint8))
        assert torch.equal(found[1], wanted[1])
    off = torch_npu.npu_rotate_quant(
        x, matrix, alpha=torch.tensor([2.0]), dst_dtype=torch.float8_e4m3fn
    )
    plain = torch_npu.npu_dynamic_mx_quant(x, dst_type=torch.float8_e4m3fn)
    assert torch.equal(off[1], plain[1])
