"""Norms, gates and joined quantisations of torch_npu against float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

import torch_npu
from pictures import compiled
from small_numbers import MxReference
from torchair._impl.operators.quantisation.integers import unpack_int4
from torchair._impl.operators.quantisation.small_floats import HIFLOAT8, unpack_pairs

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def both(function, *arguments):
    yield function(*arguments)
    yield compiled(function)(*arguments)


def close(found, wanted) -> None:
    for one, other in zip(found, wanted, strict=True):
        rough = one.dtype != torch.float32
        tolerance = (
            {"atol": 2e-2, "rtol": 1e-2} if rough else {"atol": 2e-5, "rtol": 2e-5}
        )
        torch.testing.assert_close(one.double(), other.double(), **tolerance)


def normalised(x: torch.Tensor, epsilon: float):
    mean = x.mean(-1, keepdim=True)
    rstd = 1 / (x.var(-1, keepdim=True, unbiased=False) + epsilon).sqrt()
    return (x - mean) * rstd, mean, rstd


@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norms(dtype) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(3, 5, 24).to(dtype), torch.randn(3, 5, 24).to(dtype)
    gamma, beta = torch.randn(24).to(dtype), torch.randn(24).to(dtype)

    def norms(a, b, gamma, beta):
        return (
            torch_npu.npu_layer_norm_eval(a, [24], gamma, beta),
            *torch_npu.npu_add_layer_norm(a, b, gamma, beta),
            *torch_npu.npu_deep_norm(a, b, beta, gamma, 0.7),
        )

    wide = [t.double() for t in (a, b, gamma, beta)]
    scale = lambda y: y * wide[2] + wide[3]
    added, mean, rstd = normalised(wide[0] + wide[1], 1e-5)
    deep, deep_mean, deep_rstd = normalised(0.7 * wide[0] + wide[1], 1e-6)
    wanted = (
        scale(normalised(wide[0], 1e-5)[0]),
        *(scale(added), mean, rstd, wide[0] + wide[1]),
        *(deep_mean, deep_rstd, scale(deep)),
    )
    for found in both(norms, a, b, gamma, beta):
        close(found, wanted)


def test_sums_of_two_dtypes_are_f32() -> None:
    a, b = torch.randn(4, 8).half(), torch.randn(4, 8)
    y, _, _, total = torch_npu.npu_add_layer_norm(a, b, torch.ones(8), torch.zeros(8))
    assert y.dtype == total.dtype == torch.float32
    torch.testing.assert_close(total, a.float() + b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_group_norms(dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 12, 3, 4).to(dtype)
    weight, bias = torch.randn(12).to(dtype), torch.randn(12).to(dtype)

    def norms(x, weight, bias):
        return (
            *torch_npu.npu_group_norm_silu(x, weight, bias, 3),
            *torch_npu.npu_group_norm_swish(x, 3, weight, bias, swish_scale=1.5),
        )

    wide = functional.group_norm(x.double(), 3, weight.double(), bias.double())
    parts = x.double().reshape(2, 3, -1)
    mean = parts.mean(-1)
    rstd = 1 / (parts.var(-1, unbiased=False) + 1e-5).sqrt()
    wanted = (functional.silu(wide), mean, rstd, wide * torch.sigmoid(1.5 * wide))
    for found in both(norms, x, weight, bias):
        close(found, (*wanted, mean, rstd))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gemma(dtype) -> None:
    torch.manual_seed(0)
    x, gamma = torch.randn(6, 16).to(dtype), torch.randn(16).to(dtype)
    wide = x.double()
    rstd = 1 / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    for found in both(torch_npu.npu_gemma_rms_norm, x, gamma):
        close(found, (wide * rstd * (1 + gamma.double()), rstd))


@pytest.mark.parametrize("kind", ["int8", "int4", "float8_e4m3fn", "hifloat8"])
def test_rms_norm_quant(kind) -> None:
    torch.manual_seed(0)
    x, gamma, beta = torch.randn(3, 16), torch.randn(16), torch.randn(16)
    scale, offset = torch.tensor([1.7]), torch.tensor([-2], dtype=torch.int8)
    number = {
        "int8": None,
        "int4": torch.quint4x2,
        "float8_e4m3fn": torch.float8_e4m3fn,
        "hifloat8": torch_npu.hifloat8,
    }[kind]

    def quantise(x, gamma, beta, scale, offset):
        return torch_npu.npu_rms_norm_quant(
            x, gamma, beta, scale, offset, dst_dtype=number
        )

    wide = x.double()
    norm = wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    values = (norm * gamma.double() + beta.double()) * scale.double() - 2
    for found in both(quantise, x, gamma, beta, scale, offset):
        if kind == "int8":
            assert torch.equal(found, values.round().clamp(-128, 127).to(torch.int8))
        elif kind == "int4":
            assert torch.equal(unpack_int4(found), values.round().clamp(-8, 7).char())
        elif kind == "hifloat8":
            decoded = HIFLOAT8.decode(found).double()
            torch.testing.assert_close(decoded, values, atol=1e-3, rtol=0.07)
        else:
            assert torch.equal(found.float(), values.float().to(found.dtype).float())


@pytest.mark.parametrize("algorithm", [0, 1])
def test_norms_before_mx_blocks(algorithm) -> None:
    """The joined operators have the bits of the norm, and then of the blocks."""
    torch.manual_seed(0)
    a, b = torch.randn(3, 80).bfloat16(), torch.randn(3, 80).bfloat16()
    gamma, beta = torch.randn(80), torch.randn(80)
    options = {"dst_type": torch.float8_e4m3fn, "scale_alg": algorithm, "beta": beta}

    def quantise(a, b, gamma):
        return (
            *torch_npu.npu_rms_norm_dynamic_mx_quant(a, gamma, **options),
            *torch_npu.npu_add_rms_norm_dynamic_mx_quant(a, b, gamma, **options),
        )

    reference = MxReference("float8_e4m3fn", algorithm=algorithm)
    for found in both(quantise, a, b, gamma):
        y, scales, rstd, y2, total, scales2, rstd2 = found
        assert torch.equal(total, a + b)
        for x, made, pairs, root in ((a, y, scales, rstd), (a + b, y2, scales2, rstd2)):
            _, wanted_root = torch_npu.npu_rms_norm(x, gamma)
            wide = x.float() * wanted_root * gamma + beta
            codes, wanted = reference.rows(wide.bfloat16())
            same = made.view(torch.uint8).numpy() == codes
            assert same.mean() > 0.99  # the order of the norm's sum is free
            np.testing.assert_array_equal(pairs.flatten(-2)[:, :3].numpy(), wanted)
            torch.testing.assert_close(root, wanted_root)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [False, True])
def test_geglu(dtype, left) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 12, 6).to(dtype)

    def gate(x):
        return (
            *torch_npu.npu_geglu(x, 1, 0, left),
            *torch_npu.npu_geglu(x, activate_left=left),
        )

    wanted = []
    for dim, approximate in ((1, "none"), (-1, "tanh")):
        a, b = x.double().chunk(2, dim)
        a, b = (a, b) if left else (b, a)
        gelu = functional.gelu(a, approximate=approximate)
        wanted += [gelu * b, gelu]
    for found in both(gate, x):
        close(found, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("dim", [-1, 1])
def test_clipped_swiglu(dtype, interleaved, dim) -> None:
    torch.manual_seed(0)
    x = (torch.randn(6, 4, 8) * 6).to(dtype)
    groups = torch.tensor([2, 2] if dim == 1 else [3, 15])

    def gate(x, groups):
        return torch_npu.npu_clipped_swiglu(
            x, group_index=groups, dim=dim, interleaved=interleaved, limit=5.0
        )

    flat = x.double().flatten(dim % 3)
    half = flat.shape[-1] // 2
    a, b = (
        (flat[..., ::2], flat[..., 1::2])
        if interleaved
        else (flat[..., :half], flat[..., half:])
    )
    a, b = a.clamp(max=5), b.clamp(-5, 5)
    wanted = (a * torch.sigmoid(1.702 * a) * (b + 1)).reshape(-1, half)
    wanted[int(groups.sum()) :] = 0
    shape = list(x.shape)
    shape[dim] //= 2
    for found in both(gate, x, groups) if dtype == torch.float32 else [gate(x, groups)]:
        close([found], [wanted.reshape(shape)])


def gated(x: torch.Tensor, mode: int, left: bool) -> torch.Tensor:
    x = x.double()
    a, b = (x[..., ::2], x[..., 1::2]) if mode == 1 else x.chunk(2, -1)
    if mode != 1 and not left:
        a, b = b, a
    if mode == 0:
        return functional.silu(a) * b
    if mode == 3:
        return functional.silu(a).clamp(max=3) * b.clamp(-3, 3)
    a, b = a.clamp(max=3), b.clamp(-3, 3)
    return a * torch.sigmoid(1.702 * a) * (b + 1)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_swiglu_before_mx_blocks(mode) -> None:
    torch.manual_seed(0)
    x = (torch.randn(5, 128) * 3).bfloat16()

    def quantise(x):
        return torch_npu.npu_swiglu_mx_quant(
            x,
            swiglu_mode=mode,
            clamp_limit=3.0,
            activate_left=mode % 2 == 0,
            dst_type=torch.float8_e5m2,
        )

    rows = gated(x, mode, mode % 2 == 0).bfloat16()
    codes, scales = MxReference("float8_e5m2").rows(rows)
    for made, pairs in both(quantise, x):
        assert (made.view(torch.uint8).numpy() == codes).mean() > 0.98
        np.testing.assert_array_equal(pairs.flatten(-2).numpy(), scales)


def test_swiglu_blocks_along_rows_begin_with_each_group() -> None:
    torch.manual_seed(0)
    x = torch.randn(150, 8).half()
    groups = torch.tensor([40, 0, 70])

    def quantise(x, groups):
        return torch_npu.npu_swiglu_mx_quant(x, axis=-2, group_index=groups)

    rows = gated(x, 0, False).half()
    pairs_wanted = np.zeros((150 // 64 + 3, 4, 2), dtype=np.int64)
    codes = np.zeros((150, 4), dtype=np.int64)
    start = 0
    for group, size in enumerate(groups.tolist()):
        part = rows[start : start + size]
        if size:
            made, scales = MxReference("float4_e2m1fn_x2").rows(part.t())
            codes[start : start + size] = made.T
            for block in range(scales.shape[1]):
                place = start // 64 + group + block // 2
                pairs_wanted[place, :, block % 2] = scales[:, block]
        start += size
    for made, pairs in both(quantise, x, groups):
        assert (unpack_pairs(made).numpy() == codes).mean() > 0.99
        np.testing.assert_array_equal(pairs.numpy(), pairs_wanted)


@pytest.mark.parametrize("kind", ["int8", "float8_e4m3fn", "float8_e5m2", "hifloat8"])
def test_blocks_with_float_scales(kind) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 200, 300).bfloat16()
    x[0, :128, :128] = 0
    most = {"int8": 127, "float8_e4m3fn": 448, "float8_e5m2": 57344, "hifloat8": 32768}
    number = 1 if kind == "int8" else getattr(torch_npu, kind)
    rounding = "round" if kind == "hifloat8" else "rint"

    def quantise(x):
        return torch_npu.npu_dynamic_block_quant(
            x,
            dst_type=number,
            round_mode=rounding,
            row_block_size=128,
            min_scale=40.0,
        )

    for y, scale in both(quantise, x):
        assert tuple(scale.shape) == (2, 2, 3)
        wide = {"hifloat8": HIFLOAT8.decode}.get(kind, lambda t: t.float())(y)
        for b, i, j in np.ndindex(2, 2, 3):
            part = (b, slice(128 * i, 128 * i + 128), slice(128 * j, 128 * j + 128))
            top = x[part].double().abs().max() / most[kind]
            wanted = min(float(top), 1 / 40)
            assert float(scale[b, i, j]) == pytest.approx(wanted, rel=1e-6)
            if wanted:
                near = (x[part].double() / wanted).clamp(-most[kind], most[kind])
                torch.testing.assert_close(
                    wide[part].double(), near, atol=0.51, rtol=0.26
                )
            else:
                assert not wide[part].any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_kronecker(dtype) -> None:
    torch.manual_seed(0)
    x, p1, p2 = (torch.randn(*s).to(dtype) for s in ((5, 6, 16), (6, 6), (16, 16)))

    def quantise(x, p1, p2):
        return (
            *torch_npu.npu_kronecker_quant(x, p1, p2, 0.9),
            *torch_npu.npu_kronecker_quant(
                x, p1, p2, dst_dtype=torch_npu.float4_e2m1fn_x2
            ),
        )

    made = p1 @ (x @ p2)
    scale = made.double().abs().amax((1, 2)) / (7 * 0.9)
    integers = (made.double() / scale.reshape(-1, 1, 1)).round().clamp(-8, 7)
    codes, scales = MxReference("float4_e2m1fn_x2").rows(made.flatten(1))
    for out, s, packed, pairs in both(quantise, x, p1, p2):
        torch.testing.assert_close(s.double(), scale, atol=0, rtol=2e-2)
        assert ((unpack_int4(out) - integers).abs() <= 1).all()
        assert (unpack_int4(out) == integers).double().mean() > 0.97
        assert (unpack_pairs(packed).numpy() == codes).mean() > 0.97
        assert (pairs.flatten(-2)[:, :3].numpy() == scales).mean() > 0.9


def test_clipped_rows() -> None:
    torch.manual_seed(0)
    x = torch.randn(9, 32).bfloat16()
    groups, alpha = torch.tensor([2, 0, 5]), torch.tensor([0.4, 0.5, 0.9])
    wide = gated(x, 0, False)
    factor = alpha.double()[[0, 0, 2, 2, 2, 2, 2]]
    scale = wide[:7].abs().amax(-1) * factor / 127
    values = (wide[:7] / scale.unsqueeze(-1)).clamp(-127, 127)
    for y, s in both(torch_npu.npu_swiglu_clip_quant, x, groups, alpha):
        torch.testing.assert_close(s[:7].double(), scale, atol=0, rtol=1e-5)
        torch.testing.assert_close(y[:7].double(), values, atol=0.51, rtol=0)
        assert not y[7:].any() and not s[7:].any()


def test_clamped_halves() -> None:
    """npu_dequant_swiglu_clamp_quant counts the variants of its own way."""
    x = torch.randint(-9, 9, (4, 16), dtype=torch.int32)
    options = {"weight_scale": torch.rand(1, 16), "quant_mode": 1, "clamp_limit": 2.0}
    for mine, other in ((0, 0), (1, 2)):
        found = torch_npu.npu_dequant_swiglu_clamp_quant(x, swiglu_mode=mine, **options)
        wanted = torch_npu.npu_dequant_swiglu_quant(x, swiglu_mode=other, **options)
        assert all(map(torch.equal, found, wanted))
    with pytest.raises(RuntimeError, match="no such swiglu_mode: 2"):
        torch_npu.npu_dequant_swiglu_clamp_quant(x, swiglu_mode=2, **options)


def test_casts() -> None:
    x = torch.tensor([[0.3, -1.2, 7.9, -100.0]])
    assert torch_npu.npu_dtype_cast(x, dtype=torch.int).tolist() == [[0, -1, 7, -100]]
    assert torch_npu._npu_dtype_cast(x, torch.bfloat16).dtype == torch.bfloat16
    fours = torch_npu.npu_dtype_cast(x, torch_npu.float4_e2m1fn_x2)
    back = torch_npu.npu_dtype_cast(
        fours, torch.float32, input_dtype=torch_npu.float4_e2m1fn_x2
    )
    assert back.tolist() == [[0.5, -1.0, 6.0, -6.0]]
    ints = torch_npu.npu_dtype_cast(x, torch_npu.int4)
    back = torch_npu.npu_dtype_cast(ints, torch.int8, input_dtype=torch_npu.int4)
    assert back.tolist() == [[0, -1, 7, -8]]
    made = torch_npu.npu_dtype_cast(x, torch_npu.hifloat8)
    back = torch_npu.npu_dtype_cast(made, torch.float32, torch_npu.hifloat8)
    assert back.tolist() == [[0.3125, -1.25, 8.0, -96.0]]
    target = torch.zeros(1, 4, dtype=torch.float16)
    assert torch_npu.npu_dtype_cast_(target, x) is target
    assert torch.equal(target, x.half())
    with pytest.raises(RuntimeError, match="the last dimension of input must be even"):
        torch_npu.npu_dtype_cast(x[:, :3], torch_npu.float4_e2m1fn_x2)
    with pytest.raises(RuntimeError, match="dtype must be"):
        torch_npu.npu_dtype_cast(x, 12345)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_norm_of_a_sum_that_writes(dtype) -> None:
    torch.manual_seed(0)
    a, b, gamma = (torch.randn(*shape).to(dtype) for shape in ((4, 8), (4, 8), (8,)))
    total = a + b
    wide = total.double()
    rstd = 1 / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    wanted = (rstd, wide * rstd * gamma.double(), wide)

    def written(a, b):
        a, b = a.clone(), b.clone()
        return torch_npu.npu_add_rms_norm_v2(a, b, gamma), a, b

    def made(a, b):
        return torch_npu.npu_add_rms_norm_v2_functional(a, b, gamma)

    for function in (written, made):
        for found in both(function, a, b):
            close(found, wanted)


@pytest.mark.parametrize(
    ("divides", "name"), [(True, "int8"), (False, "float8_e4m3fn")]
)
def test_norm_by_tables(divides, name) -> None:
    torch.manual_seed(0)
    x, gamma, beta = torch.randn(4, 8), torch.randn(1, 8), torch.randn(8)
    scale, offset = torch.rand(8) + 0.1, torch.randn(8)

    def norm(x):
        return torch_npu.npu_rms_norm_quant_v2(
            x,
            gamma,
            scale,
            offset=offset,
            beta=beta,
            div_mode=divides,
            dst_dtype=getattr(torch, name),
        )

    wide = x.double()
    rstd = 1 / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    y = wide * rstd * gamma.double() + beta.double()
    y = (y / scale.double() if divides else y * scale.double()) + offset.double()
    for made, found in both(norm, x):
        torch.testing.assert_close(found.double(), rstd, rtol=1e-5, atol=0)
        step = torch.full_like(y, 0.501) if name == "int8" else y.abs() / 15 + 2e-3
        assert ((made.double() - y).abs() <= step).all()
