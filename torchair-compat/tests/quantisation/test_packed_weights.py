"""Products of weights of four bits that npu_convert_weight_to_int4pack made, and of weights
with scales of npu_trans_quant_param, against float64."""

import pytest
import torch

import torch_npu
from small_numbers import both, values_of
from torch_npu import npu_convert_weight_to_int4pack as pack

f16, bf16, f32 = torch.float16, torch.bfloat16, torch.float32
NEAR = {f16: 2e-3, bf16: 1e-2, f32: 1e-5}


def of_float4(*shape: int) -> torch.Tensor:
    """Numbers that float4_e2m1 has, f32."""
    values = torch.from_numpy(values_of("float4_e2m1fn_x2")).float()
    values = torch.cat([values, -values])
    return values[torch.randint(0, len(values), shape)]


def codes_and_factors(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """float8_e8m0fnu as bytes, and what they stand for."""
    codes = torch.randint(124, 131, shape, dtype=torch.uint8)
    return codes, 2.0 ** (codes.double() - 127)


def whole_scale(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A scale of npu_trans_quant_param, and its value, which has few bits."""
    scale = torch.randint(1, 64, shape).float() / 64
    code = torch_npu.npu_trans_quant_param(scale.flatten()).reshape(shape)
    return code, scale.double()


def test_float4_is_packed_from_the_lowest_bits() -> None:
    values = torch.tensor([[0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]])
    for found in both(pack, torch.cat([values, -values])):
        assert found.dtype == f32
        bits = found.view(torch.int32).to(torch.int64) & 0xFFFFFFFF
        assert [f"{one:08x}" for one in bits.flatten().tolist()] == [
            "76543210",
            "fedcba98",
        ]
    with pytest.raises(RuntimeError, match="values that float4_e2m1 does not have"):
        pack(values + 0.25)


@pytest.mark.parametrize("kind", [f16, bf16])
@pytest.mark.parametrize("transposed", [False, True])
def test_weights_of_float4_in_groups(kind, transposed) -> None:
    torch.manual_seed(0)
    weight, x = of_float4(64, 16), torch.randn(5, 64).to(kind)
    codes, factors = codes_and_factors(2, 16)
    packed = pack(weight.t().contiguous()).t() if transposed else pack(weight)
    exact = x.double() @ (weight.double() * factors.repeat_interleave(32, 0))

    def product(x, packed, codes):
        return torch_npu.npu_weight_quant_batchmatmul(
            x, packed, codes, antiquant_group_size=32
        )

    for found in both(product, x, packed, codes):
        assert found.dtype == kind
        near = NEAR[kind]
        torch.testing.assert_close(found.double(), exact, rtol=near, atol=near)
    with pytest.raises(RuntimeError, match="in groups of 32"):
        torch_npu.npu_weight_quant_batchmatmul(x, packed, codes)


def test_an_antiquant_scale_of_int64() -> None:
    torch.manual_seed(0)
    weight = torch.randint(-128, 128, (16, 64), dtype=torch.int8)
    x = torch.randn(5, 64).half()
    code, scale = whole_scale(16, 1)
    offset = torch.randint(-128, 127, (16, 1), dtype=torch.int32)
    wide = (weight.double() + offset) * scale
    exact = x.double() @ wide.t()

    def product(x, weight, code, offset):
        return torch_npu.npu_weight_quant_batchmatmul(
            x, weight.t(), code.t(), offset.t()
        )

    for found in both(product, x, weight, code, offset):
        torch.testing.assert_close(found.double(), exact, rtol=2e-3, atol=2e-3)
    with pytest.raises(RuntimeError, match="for x of float16 and weights of int8"):
        product(x.float(), weight, code, offset)
    with pytest.raises(RuntimeError, match="antiquant_offset must be int32"):
        product(x, weight, code, offset.half())


@pytest.mark.parametrize("shifted", [False, True])
def test_a_quant_scale_of_int64(shifted) -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 8).half()
    weight = torch.randint(-128, 128, (8, 6), dtype=torch.int8)
    scale = torch.rand(1, 6).half() / 64
    outer, shift = torch.randint(1, 64, (6,)).float() / 4, torch.arange(6.0) - 3
    code = torch_npu.npu_trans_quant_param(outer, shift if shifted else None)
    exact = (x.double() @ (weight.double() * scale.double())) * outer
    exact = exact + shift if shifted else exact

    def product(x, weight, scale, code):
        return torch_npu.npu_weight_quant_batchmatmul(x, weight, scale, None, code)

    for found in both(product, x, weight, scale, code):
        assert found.dtype == torch.int8
        assert (found.double() - exact.clamp(-128, 127)).abs().max() <= 0.501
    with pytest.raises(RuntimeError, match="quant_scale must be float32, int64"):
        product(x, weight, scale, outer.half())


# npu_grouped_matmul


@pytest.mark.parametrize("transposed", [False, True])
def test_groups_of_float8_with_float4(transposed) -> None:
    torch.manual_seed(0)
    sizes, k, n = (3, 0, 5), 64, 16
    weight = of_float4(len(sizes), k, n)
    x = torch.randint(-8, 9, (8, k)).to(torch.float8_e4m3fn)
    rows, row_factors = codes_and_factors(8, k // 32)
    columns, factors = codes_and_factors(len(sizes), n, k // 32)
    packed = pack(weight)
    if transposed:
        packed = pack(weight.transpose(1, 2).contiguous()).transpose(1, 2)
    left = x.double() * row_factors.repeat_interleave(32, 1)
    right = weight.double() * factors.repeat_interleave(32, 2).transpose(1, 2)
    exact = torch.cat([a @ w for a, w in zip(left.split(sizes), right)])

    def product(x, packed, columns, rows, group_list):
        return torch_npu.npu_grouped_matmul(
            [x],
            [packed],
            antiquant_scale=[columns.transpose(1, 2)],
            per_token_scale=[rows],
            group_list=group_list,
            split_item=3,
            group_type=0,
            group_list_type=1,
            output_dtype=bf16,
            per_token_scale_dtype=torch_npu.float8_e8m0fnu,
        )[0]

    for found in both(product, x, packed, columns, rows, torch.tensor(sizes)):
        torch.testing.assert_close(found.double(), exact, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_groups_of_float8_with_a_scale_of_int64(kind) -> None:
    torch.manual_seed(0)
    sizes, k, n = (3, 5), 32, 16
    x = torch.randint(-8, 9, (8, k)).to(kind)
    weight = torch.randint(-8, 9, (2, k, n)).to(kind)
    code, scale = whole_scale(2, n)
    right = weight.double() * scale.unsqueeze(1)
    exact = torch.cat([a @ w for a, w in zip(x.double().split(sizes), right)])

    def product(x, weight, code, group_list):
        return torch_npu.npu_grouped_matmul(
            [x],
            [weight],
            scale=[code],
            group_list=group_list,
            split_item=2,
            group_type=0,
            group_list_type=1,
            output_dtype=f32,
        )[0]

    for found in both(product, x, weight, code, torch.tensor(sizes)):
        torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-4)


# npu_quant_matmul


@pytest.mark.parametrize("kind", [f16, bf16])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("narrow", [False, True])
def test_a_weight_of_int4_in_parts(kind, transposed, narrow) -> None:
    """`narrow`: x1 is of int4 too."""
    torch.manual_seed(0)
    m, k, n, part = 5, 64, 16, 32
    weight = torch.randint(-8, 8, (k, n), dtype=torch.int32)
    packed = pack(weight.t().contiguous()).t() if transposed else pack(weight)
    limit = 8 if narrow else 128
    x = torch.randint(-limit, limit, (m, k), dtype=torch.int32)
    token = torch.rand(m, 1)
    wide = weight.double()
    if narrow:
        given, scale = pack(x), torch.rand(k // part, n)
        offset = torch.randint(-4, 4, (k // part, n)).half()
        wide = wide - offset.double().repeat_interleave(part, 0)
        wide = wide * scale.double().repeat_interleave(part, 0)
        exact = x.double() @ wide
    else:
        given = x.to(torch.int8)
        scale, value = whole_scale(k // part, n)
        wide = wide * value.repeat_interleave(part, 0)
        offset = (8 * wide.sum(0)).float()  # what the operator takes away
        exact = x.double() @ wide
    exact = exact * token.double()

    def product(given, packed, scale, offset, token):
        return torch_npu.npu_quant_matmul(
            given,
            packed,
            scale,
            offset=offset,
            pertoken_scale=token,
            output_dtype=kind,
            group_sizes=[0, 0, part],
        )

    near = NEAR[kind]
    for found in both(product, given, packed, scale, offset, token):
        assert found.dtype == kind
        torch.testing.assert_close(found.double(), exact, rtol=near, atol=0.1)
    with pytest.raises(RuntimeError, match="offset must"):
        product(given, packed, scale, offset.double(), token)
    with pytest.raises(RuntimeError, match="scale must"):
        product(given, packed, scale[:, :8], offset, token)
    with pytest.raises(RuntimeError, match="pertoken_scale must"):
        product(given, packed, scale, offset, token[:4])


def test_parts_have_the_size_that_group_sizes_says() -> None:
    given = {
        "x1": pack(torch.ones(4, 64, dtype=torch.int32)),
        "x2": pack(torch.ones(64, 16, dtype=torch.int32)),
        "scale": torch.ones(2, 16),
        "offset": torch.ones(2, 16).half(),
        "pertoken_scale": torch.ones(4),
        "output_dtype": f16,
    }
    torch_npu.npu_quant_matmul(**given)
    for options, words in (
        ({"group_sizes": [0, 0, 64]}, r"must end with 32, .* got \[0, 0, 64\]"),
        ({"offset": None}, "offset is needed"),
        ({"pertoken_scale": None}, "pertoken_scale is needed"),
        ({"output_dtype": torch.int8}, "output_dtype must be float16 or bfloat16"),
        ({"bias": torch.ones(16)}, "bias must be None"),
        ({"scale": torch.ones(3, 16)}, "parts that divide 64"),
    ):
        with pytest.raises(RuntimeError, match=words):
            torch_npu.npu_quant_matmul(**given | options)


@pytest.mark.parametrize("kind", [f16, bf16])
def test_rows_of_int4_with_scales(kind) -> None:
    torch.manual_seed(0)
    x = torch.randint(-8, 8, (5, 64), dtype=torch.int32)
    weight = torch.randint(-8, 8, (64, 16), dtype=torch.int32)
    scale, token = torch.rand(1), torch.rand(5)
    exact = (x.double() @ weight.double()) * scale.double() * token.double()[:, None]

    def product(x, weight, scale, token):
        return torch_npu.npu_quant_matmul(
            x, weight, scale, pertoken_scale=token, output_dtype=kind
        )

    near = NEAR[kind]
    for found in both(product, pack(x), pack(weight), scale, token):
        torch.testing.assert_close(found.double(), exact, rtol=near, atol=near)
