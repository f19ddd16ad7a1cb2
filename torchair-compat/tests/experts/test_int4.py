"""Activations of int4, and products of int8 rows with int4 weights, against NumPy."""

from __future__ import annotations

import numpy
import pytest
import torch

import torch_npu
from agreement import both


def nibbles(packed):
    """The eight int4 of each int32, as NumPy int64 (..., 8 n)."""
    words = packed.numpy().astype(numpy.int64) & 0xFFFFFFFF
    parts = numpy.stack([(words >> 4 * n) & 15 for n in range(8)], -1)
    parts = numpy.where(parts > 7, parts - 16, parts)
    return parts.reshape(*packed.shape[:-1], -1)


@pytest.mark.parametrize("smooth", [None, "one", "groups"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rows_by_their_largest_element(smooth, dtype) -> None:
    x = torch.randn(2, 3, 16, dtype=dtype)
    x[1, 2] = 0
    factors = {None: None, "one": torch.rand(16), "groups": torch.rand(2, 16)}[smooth]
    ends = torch.tensor([4, 6], dtype=torch.int32) if smooth == "groups" else None
    made, scale = both(
        lambda x: torch_npu.npu_dynamic_quant(
            x, smooth_scales=factors, group_index=ends, dst_type=torch.quint4x2
        ),
        x,
    )
    assert (made.dtype, made.shape) == (torch.int32, (2, 3, 2))
    wide = x.reshape(6, 16).double().numpy()
    if smooth == "one":
        wide = wide * factors.double().numpy()
    elif smooth == "groups":
        wide = wide * factors.double().numpy()[[0, 0, 0, 0, 1, 1]]
    wanted = numpy.abs(wide).max(-1, keepdims=True) / 7
    wanted[5] = 1
    numpy.testing.assert_allclose(scale.reshape(6, 1).numpy(), wanted, rtol=1e-6)
    off = nibbles(made).reshape(6, 16) - wide / wanted
    assert numpy.abs(off).max() < 0.501


def test_what_int4_needs() -> None:
    with pytest.raises(RuntimeError, match="int4 needs rows of a multiple of 8, got 6"):
        torch_npu.npu_dynamic_quant(torch.ones(2, 6), dst_type=torch.quint4x2)
    with pytest.raises(
        RuntimeError, match="dst_type must be int8, quint4x2, .*got int32"
    ):
        torch_npu.npu_dynamic_quant(torch.ones(2, 8), dst_type=torch.int32)
    one = torch.ones(1)
    with pytest.raises(RuntimeError, match="quint4x2 needs div_mode False"):
        torch_npu.npu_quantize(torch.ones(2, 8), one, None, torch.quint4x2)


@pytest.mark.parametrize("axis", [-2, -1, 0, 1])
@pytest.mark.parametrize("deep", [False, True])
def test_quantised_by_products(axis, deep) -> None:
    """Without div_mode an axis is -2, or else the last."""
    x = torch.randn(2, 3, 8) * 4
    place = -2 if axis == -2 else -1
    shape = [1, 1, 1]
    shape[place] = x.shape[place]
    scale, point = torch.rand(shape) + 0.5, torch.randn(shape)
    given = [scale, point] if deep else [scale.flatten(), point.flatten()]
    made = both(
        lambda x, s, p: torch_npu.npu_quantize(x, s, p, torch.quint4x2, axis, False),
        *(x, *given),
    )
    wide = (x.double() * scale + point).numpy()
    off = nibbles(made) - numpy.clip(wide, -8, 7)
    assert numpy.abs(off).max() < 0.501


def packed(*shape):
    return torch.randint(-(2**31), 2**31, shape, dtype=torch.int64).to(torch.int32)


def bits(scale):
    """f32 in the lower half of int64, as scripts hand scales over."""
    return scale.contiguous().view(torch.int32).to(torch.int64) & 0xFFFFFFFF


@pytest.mark.parametrize("parts", [None, 1, 2])
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("kind", [0, 1])
def test_int8_rows_and_int4_weights(parts, shifted, kind) -> None:
    """The bias takes the 8 away that the formula subtracts from x, so the result is the
    product with the weights that the integers stand for."""
    groups, depth, width, rows = 3, 32, 16, 8
    sizes = [3, 0, 4]
    x = torch.randint(-128, 128, (rows, depth), dtype=torch.int8)
    weight = packed(groups, depth, width // 8)
    shape = (groups, width) if parts is None else (groups, parts, width)
    scale, token = torch.rand(shape) / 99, torch.rand(rows) + 0.1
    zero = torch.randn(shape) if shifted else None
    count = parts or 1
    exact = nibbles(weight).reshape(groups, count, depth // count, width)
    table = scale.reshape(groups, count, 1, width).double().numpy()
    true = exact * table
    bias = torch.from_numpy(8 * true.sum((1, 2))).float()
    if zero is not None:
        true = true + zero.reshape(groups, count, 1, width).double().numpy() * table
    options = {} if zero is None else {"offset": [zero * scale]}
    (found,) = both(
        lambda x, w, s, b, t, g: torch_npu.npu_grouped_matmul(
            [x],
            [w],
            scale=[s],
            bias=[b],
            per_token_scale=[t],
            group_list=g,
            group_list_type=kind,
            group_type=0,
            split_item=3,
            output_dtype=torch.float16,
            **options,
        ),
        *(x, weight, bits(scale), bias, token, torch.tensor(sizes)),
    )
    assert (found.dtype, found.shape) == (torch.float16, (rows, width))
    true = true.reshape(groups, depth, width)
    start = 0
    for group, size in enumerate(sizes):
        own = slice(start, start + size)
        wanted = x[own].double().numpy() @ true[group]
        wanted = wanted * token[own, None].double().numpy()
        largest = numpy.abs(wanted).max(initial=1)
        off = numpy.abs(found[own].double().numpy() - wanted)
        assert off.max(initial=0) < 2e-3 * largest
        start += size
    assert not found[start:].any()


CALL = {
    "scale": [torch.ones(1, 8, dtype=torch.int64)],
    "bias": [torch.ones(1, 8)],
    "per_token_scale": [torch.ones(2)],
    "group_list": torch.tensor([2]),
    "split_item": 3,
    "output_dtype": torch.bfloat16,
}
WRONG = {
    "needs bias of torch.float32, got None": {"bias": None},
    "needs scale of torch.int64, got torch.float32": {"scale": [torch.ones(1, 8)]},
    "needs per_token_scale": {"per_token_scale": None},
    "act_type must be 0": {"act_type": 1},
    "not torch.int32": {"output_dtype": torch.int32},
    "offset makes float16, not torch.bfloat16": {"offset": [torch.ones(1, 8)]},
    "takes one x, one weight, group_type 0": {"split_item": 0},
    "offset must have the shape of scale": {
        "offset": [torch.ones(1, 2, 8)],
        "output_dtype": torch.float16,
    },
}


@pytest.mark.parametrize("text", WRONG)
def test_what_int8_with_int4_refuses(text) -> None:
    x = torch.ones(2, 8, dtype=torch.int8)
    weight = torch.ones(1, 8, 1, dtype=torch.int32)
    with pytest.raises(RuntimeError, match=text):
        torch_npu.npu_grouped_matmul([x], [weight], **(CALL | WRONG[text]))


def test_offsets_are_for_int8_with_int4() -> None:
    with pytest.raises(RuntimeError, match="offset must be None"):
        torch_npu.npu_grouped_matmul(
            [torch.ones(2, 8)], [torch.ones(8, 4)], offset=[torch.ones(1, 4)]
        )
