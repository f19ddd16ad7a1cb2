"""Grouped products of floats of eight and four bits with a gate and with routing, against
float64, in graphs and outside."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import torch_npu
from small_numbers import LARGEST, MxReference, both, codes_of
from torchair._impl.operators.element_types import ElementType, element_type

M, K, N, GROUPS = 9, 96, 64, 3
SIZES = [4, 0, 3]  # two rows belong to no group
E8M0 = torch_npu.float8_e8m0fnu
NUMBERS = {
    "float8_e4m3fn": 24,
    "float8_e5m2": 291,
    "hifloat8": 290,
    "float4_e2m1fn_x2": 296,
}


def element(name: str) -> ElementType:
    return element_type(NUMBERS[name], "test", "x", tuple(NUMBERS))


def random(name: str, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor of a small type, and its values in float64."""
    kind = element(name)
    codes = kind.floats.encode(torch.randn(*shape))
    stored = kind.store(codes)
    return stored, kind.load(stored).double()


def scales(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Bytes of float8_e8m0fnu, and their factors in float64."""
    codes = torch.randint(124, 130, shape, dtype=torch.uint8)
    return codes, torch.exp2(codes.double() - 127)


class Operands:
    """x and a weight of a type with scales of blocks, and their products in float64."""

    def __init__(self, name: str, transposed: bool = False) -> None:
        torch.manual_seed(1)
        self.number = NUMBERS[name] if name[:6] != "float8" else None
        self.x, rows = random(name, M, K)
        self.x_scale, factor = scales(M, 2, 2)
        rows = rows * factor.flatten(-2).repeat_interleave(32, -1)[:, :K]
        if transposed:
            weight, columns = random(name, GROUPS, N, K)
            self.weight, columns = weight.transpose(1, 2), columns.transpose(1, 2)
        else:
            self.weight, columns = random(name, GROUPS, K, N)
        scale, factor = scales(GROUPS, N, 2, 2)
        self.scale = scale.transpose(1, 2)
        factor = factor.flatten(-2).repeat_interleave(32, -1)[..., :K].transpose(1, 2)
        self.products = torch.zeros(M, N, dtype=torch.float64)
        start = 0
        for group, size in enumerate(SIZES):
            own = slice(start, start + size)
            self.products[own] = rows[own] @ (columns * factor)[group]
            start += size

    def types(self, *names: str) -> dict[str, int]:
        return {} if self.number is None else dict.fromkeys(names, self.number)


def gated(values: torch.Tensor) -> torch.Tensor:
    left, right = values.chunk(2, -1)
    return left * left.sigmoid() * right


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(
    ("name", "transposed", "result"),
    [
        ("float8_e4m3fn", False, "float8_e5m2"),
        ("float8_e5m2", True, "float8_e4m3fn"),
        ("float8_e4m3fn", True, "float4_e2m1fn_x2"),
        ("float4_e2m1fn_x2", False, "float8_e4m3fn"),
        ("float4_e2m1fn_x2", True, "float4_e2m1fn_x2"),
    ],
)
def test_gate_of_blocks(name, transposed, result, kind) -> None:
    """Elements are those of the f32 that products round to: a power of two that lies next to
    a product may be the other one."""
    operands = Operands(name, transposed)
    sizes = torch.tensor(SIZES)
    groups = sizes if kind else sizes.cumsum(0)

    def function(x, weight, scale, x_scale, groups):
        return torch_npu.npu_grouped_matmul_swiglu_quant_v2(
            x, [weight], [scale], x_scale, groups, dequant_mode=2, quant_mode=2,
            quant_dtype=NUMBERS[result], group_list_type=kind, x_scale_dtype=E8M0,
            weight_scale_dtype=E8M0, **operands.types("x_dtype", "weight_dtype"),
        )  # fmt: skip

    arguments = operands.x, operands.weight, operands.scale, operands.x_scale, groups
    wanted = gated(operands.products)
    for values, pairs in both(function, *arguments):
        assert pairs.dtype == torch.float8_e8m0fnu
        check_blocks(values, pairs.view(torch.uint8), wanted, result)


# How far an element is from its number at most, as a part of the block's largest.
COARSE = {"float8_e4m3fn": 2**-3, "float8_e5m2": 2**-3, "float4_e2m1fn_x2": 0.26}


def check_blocks(
    stored: torch.Tensor, pairs: torch.Tensor, wanted: torch.Tensor, name: str
) -> None:
    codes, scales = MxReference(name).rows(wanted.float())
    values = element(name).load(stored).double()
    inside = sum(SIZES)
    assert not values[inside:].any() and not pairs[inside:].any()
    found = pairs.flatten(-2)[:, : N // 64].numpy()
    same = found == scales
    assert same.mean() > 0.9 and np.abs(found.astype(int) - scales).max() <= 1
    equal = codes_of(stored, name) == codes
    assert equal[same.repeat(32, -1)].mean() > 0.98
    factor = torch.exp2(torch.from_numpy(found.astype(np.float64)) - 127)
    near = values * factor.repeat_interleave(32, -1)
    top = wanted.unflatten(-1, (-1, 32)).abs().amax(-1).repeat_interleave(32, -1)
    assert ((near - wanted).abs() <= COARSE[name] * top + 1e-9).all()


@pytest.mark.parametrize("dequant", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "hifloat8"])
def test_gate_of_rows(name, dequant) -> None:
    torch.manual_seed(2)
    x, rows = random(name, M, K)
    weight, columns = random(name, GROUPS, K, N)
    scale, tokens = torch.rand(GROUPS, N) / 9, torch.rand(M) / 9
    number = NUMBERS[name]
    types = {} if name != "hifloat8" else {"x_dtype": number, "weight_dtype": number}

    def function(x, weight, scale, tokens, groups):
        return torch_npu.npu_grouped_matmul_swiglu_quant_v2(
            x, [weight], [scale], tokens, groups, dequant_dtype=dequant,
            quant_dtype=number, group_list_type=1, **types,
        )  # fmt: skip

    products = torch.zeros(M, N, dtype=torch.float64)
    start = 0
    for group, size in enumerate(SIZES):
        own = slice(start, start + size)
        made = rows[own] @ columns[group] * scale[group].double()
        products[own] = made * tokens[own].double().unsqueeze(-1)
        start += size
    wanted = gated(products.to(dequant).double())
    largest = LARGEST.get(name, 32768.0)
    coarse = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dequant]
    part = {"float8_e4m3fn": 2**-4, "float8_e5m2": 2**-3, "hifloat8": 2**-2}[name]
    for stored, most in both(function, x, weight, scale, tokens, torch.tensor(SIZES)):
        top = wanted.abs().amax(-1)
        torch.testing.assert_close(most.double(), top / largest, atol=0, rtol=coarse)
        near = element(name).load(stored).double() * most.double().unsqueeze(-1)
        allowed = (part + coarse) * wanted.abs() + (1e-4 + coarse) * top.unsqueeze(-1)
        assert ((near - wanted).abs() <= allowed).all()
        assert not near[sum(SIZES) :].any()


def test_two_products_in_a_graph() -> None:
    """The scales of the first are those of the second, which reads them where they are."""
    first, second = Operands("float8_e4m3fn"), Operands("float8_e5m2")
    sizes = torch.tensor(SIZES)
    # The second takes rows of N / 2 elements.
    weight, scale = (
        second.weight[:, : N // 2].contiguous(),
        second.scale[:, :1].contiguous(),
    )

    def layer(x, weight, scale, x_scale, other, other_scale, sizes):
        rows, scales = torch_npu.npu_grouped_matmul_swiglu_quant_v2(
            x, [weight], [scale], x_scale, sizes, dequant_mode=2, quant_mode=2,
            quant_dtype=24, group_list_type=1,
        )  # fmt: skip
        return torch_npu.npu_grouped_matmul(
            [rows], [other], scale=[other_scale], per_token_scale=[scales],
            group_list=sizes, group_list_type=1, group_type=0, split_item=3,
            output_dtype=torch.float32,
        )[0]  # fmt: skip

    arguments = first.x, first.weight, first.scale, first.x_scale, weight, scale, sizes
    eager, graph = both(layer, *arguments)
    torch.testing.assert_close(graph, eager, atol=1e-2, rtol=1e-2)
    assert eager[: sum(SIZES)].abs().sum() > 0


def test_a_weight_for_each_group() -> None:
    """A list of matrices has the bits of one tensor."""
    operands = Operands("float8_e4m3fn")
    more = {
        "dequant_mode": 2, "quant_mode": 2, "quant_dtype": 24, "group_list_type": 1,
        "x_scale_dtype": E8M0, "weight_scale_dtype": E8M0,
    }  # fmt: skip
    gate = torch_npu.npu_grouped_matmul_swiglu_quant_v2
    sizes = torch.tensor(SIZES)
    one = gate(
        operands.x, [operands.weight], [operands.scale], operands.x_scale, sizes, **more
    )
    parts = list(operands.weight), list(operands.scale)
    many = gate(operands.x, *parts, operands.x_scale, sizes, **more)
    for a, b in zip(one, many):
        assert torch.equal(a.view(torch.uint8), b.view(torch.uint8))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    ("name", "transposed"),
    [("float8_e4m3fn", False), ("float8_e5m2", True), ("float4_e2m1fn_x2", False)],
)
def test_routing(name, transposed, biased) -> None:
    operands = Operands(name, transposed)
    bias = torch.randn(GROUPS, N).bfloat16() if biased else None
    logit, index = torch.rand(M), torch.randint(0, 5, (M,))
    shared = torch.randn(2, N).bfloat16()

    def function(x, weight, scale, x_scale, groups, bias, logit, index, shared):
        return torch_npu.npu_grouped_matmul_finalize_routing(
            x, weight, groups, scale=scale, pertoken_scale=x_scale, bias=bias,
            logit=logit, row_index=index, shared_input=shared, output_bs=5,
            shared_input_weight=0.5, shared_input_offset=3, scale_dtype=E8M0,
            pertoken_scale_dtype=E8M0, **operands.types("x_dtype", "w_dtype"),
        )  # fmt: skip

    arguments = operands.x, operands.weight, operands.scale, operands.x_scale
    wanted = torch.zeros(5, N, dtype=torch.float64)
    start = 0
    for group, size in enumerate(SIZES):
        for row in range(start, start + size):
            made = operands.products[row]
            made = made if bias is None else made + bias[group].double()
            wanted[index[row]] += made * logit[row].double()
        start += size
    wanted[3:] += 0.5 * shared.double()
    more = torch.tensor(SIZES), bias, logit, index, shared
    for found in both(function, *arguments, *more):
        torch.testing.assert_close(found.double(), wanted, atol=1e-4, rtol=1e-4)


def _gate(**change):
    operands = Operands("float8_e4m3fn")
    right = {
        "x": operands.x, "weight": [operands.weight], "weight_scale": [operands.scale],
        "x_scale": operands.x_scale, "group_list": torch.tensor(SIZES).cumsum(0),
        "dequant_mode": 2, "quant_mode": 2, "quant_dtype": 24,
    }  # fmt: skip
    return torch_npu.npu_grouped_matmul_swiglu_quant_v2(**{**right, **change})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"dequant_mode": 0}, "x_scale of torch.uint8 does not go with dequant_mode 0"),
        ({"dequant_mode": 3}, "dequant_mode must be one of"),
        ({"quant_mode": 1}, "quant_mode must be one of"),
        ({"quant_dtype": 1}, "quant_dtype must be float4_e2m1fn_x2"),
        ({"quant_mode": 0, "quant_dtype": 296}, "quant_dtype must be int8"),
        ({"dequant_dtype": 3}, "dequant_dtype must be float32, float16, bfloat16"),
        (
            {"weight_assist_matrix": [torch.ones(3, N)]},
            "weight_assist_matrix goes with",
        ),
        ({"smooth_scale": torch.ones(3)}, "smooth_scale must be None for x of"),
        ({"group_list": torch.tensor([1, 2])}, r"group_list must have shape \(3,\)"),
        ({"x_scale": torch.ones(M)}, "x_scale of torch.float32 does not go with"),
        ({"x": torch.ones(M, K, dtype=torch.int8)}, "x of torch.int8 and weight of"),
    ],
)
def test_wrong(change, text) -> None:
    with pytest.raises(
        RuntimeError, match=f"npu_grouped_matmul_swiglu_quant_v2: {text}"
    ):
        _gate(**change)


def test_dtypes_beside_integers() -> None:
    x = torch.ones(2, 32, dtype=torch.int8)
    with pytest.raises(RuntimeError, match="are for small floats, got"):
        torch_npu.npu_grouped_matmul_swiglu_quant_v2(
            x, [x.t().expand(1, 32, 2)], [torch.ones(1, 2)], torch.ones(2),
            torch.tensor([2]), weight_scale_dtype=E8M0,
        )  # fmt: skip
