"""Products of operands of eight and four bits against float64."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled
from torchair._impl.operators.quantisation.small_floats import (
    E2M1,
    HIFLOAT8,
    scale_values,
    unpack_pairs,
)

E8M0 = torch_npu.float8_e8m0fnu
M, K, N = 5, 192, 12


def values_of(stored: torch.Tensor, pairs: torch.Tensor | None = None) -> torch.Tensor:
    """float64 rows (..., k) of what an operator quantised."""
    if stored.dtype == torch.uint8:
        wide = E2M1.decode(unpack_pairs(stored)).double()
    else:
        wide = stored.double()
    if pairs is None:
        return wide
    factors = scale_values(pairs).double().flatten(-2).repeat_interleave(32, -1)
    return wide * factors[..., : wide.shape[-1]]


def quantised(*shape: int, dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return torch_npu.npu_dynamic_mx_quant(torch.randn(*shape).half(), dst_type=dtype)


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found.double(), wanted, atol=2e-2, rtol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, "four"])
def test_quant_matmul_of_blocks(dtype) -> None:
    torch.manual_seed(0)
    four = dtype == "four"
    number = torch_npu.float4_e2m1fn_x2
    x, xs = quantised(M, K, dtype=number if four else dtype)
    w, ws = quantised(N, K, dtype=number if four else dtype)
    bias = torch.randn(N)
    kinds = {"x1_dtype": number, "x2_dtype": number} if four else {}

    def product(x, w, ws, xs, bias):
        return torch_npu.npu_quant_matmul(
            x,
            w.t(),
            ws.transpose(0, 1),
            pertoken_scale=xs,
            bias=bias,
            output_dtype=torch.bfloat16,
            scale_dtype=E8M0,
            pertoken_scale_dtype=E8M0,
            group_sizes=[1, 1, 32],
            **kinds,
        )

    wanted = values_of(x, xs) @ values_of(w, ws).t() + bias.double()
    for function in (product, compiled(product)):
        close(function(x, w, ws, xs, bias), wanted)


def test_quant_matmul_of_four_bits_packed_along_n() -> None:
    x, xs = quantised(M, K, dtype=torch_npu.float4_e2m1fn_x2)
    w = torch.randint(0, 256, (K, N // 2), dtype=torch.uint8)
    ws = torch.randint(124, 130, (K // 64, N, 2), dtype=torch.uint8)
    found = torch_npu.npu_quant_matmul(
        x,
        w,
        ws,
        pertoken_scale=xs,
        output_dtype=torch.float32,
        x1_dtype=torch_npu.float4_e2m1fn_x2,
        x2_dtype=torch_npu.float4_e2m1fn_x2,
        scale_dtype=E8M0,
        pertoken_scale_dtype=E8M0,
    )
    factors = scale_values(ws).double().transpose(0, 1).flatten(-2)
    weight = (
        E2M1.decode(unpack_pairs(w)).double() * factors.repeat_interleave(32, -1).t()
    )
    close(found, values_of(x, xs) @ weight)


@pytest.mark.parametrize("number", [torch_npu.hifloat8, None])
def test_quant_matmul_of_rows_and_columns(number) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(M, K), torch.randn(K, N)
    if number is None:
        a, b = x.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn)
        wide = a.double(), b.double()
    else:
        a, b = (torch_npu.npu_dtype_cast(t, number) for t in (x, w))
        wide = HIFLOAT8.decode(a).double(), HIFLOAT8.decode(b).double()
    scale, rows = torch.rand(N), torch.rand(M)
    found = torch_npu.npu_quant_matmul(
        a,
        b,
        scale,
        pertoken_scale=rows,
        output_dtype=torch.float32,
        x1_dtype=number,
        x2_dtype=number,
    )
    close(found, wide[0] @ wide[1] * scale.double() * rows.double().unsqueeze(-1))


@pytest.mark.parametrize("weight_dtype", [torch.float8_e4m3fn, "four"])
def test_grouped_matmul_of_blocks(weight_dtype) -> None:
    torch.manual_seed(0)
    four = weight_dtype == "four"
    kind = torch_npu.float4_e2m1fn_x2
    x, xs = quantised(7, K, dtype=torch.float8_e4m3fn)
    w, ws = quantised(2, N, K, dtype=kind if four else weight_dtype)
    sizes = torch.tensor([3, 4])
    scales = {"antiquant_scale" if four else "scale": [ws.transpose(1, 2)]}

    def product(x, w, xs, sizes):
        return torch_npu.npu_grouped_matmul(
            [x],
            [w.transpose(1, 2)],
            per_token_scale=[xs],
            group_list=sizes,
            group_list_type=1,
            split_item=3,
            group_type=0,
            output_dtype=torch.bfloat16,
            weight_dtype=kind if four else None,
            per_token_scale_dtype=E8M0,
            **scales,
        )[0]

    rows, weights = values_of(x, xs), values_of(w, ws)
    wanted = torch.cat([rows[:3] @ weights[0].t(), rows[3:] @ weights[1].t()])
    for function in (product, compiled(product)):
        close(function(x, w, xs, sizes), wanted)


def test_grouped_matmul_of_rows_and_columns() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, K).to(torch.float8_e4m3fn)
    w = torch.randn(2, K, N).to(torch.float8_e4m3fn)
    rows, columns = torch.rand(4), torch.rand(2, N)
    found = torch_npu.npu_grouped_matmul(
        [x],
        [w],
        scale=[columns],
        per_token_scale=[rows],
        group_list=[1, 4],
        split_item=3,
        group_type=0,
        output_dtype=torch.float32,
    )[0]
    parts = [
        x[part].double() @ w[group].double() * columns[group].double()
        for group, part in enumerate((slice(0, 1), slice(1, 4)))
    ]
    close(found, torch.cat(parts) * rows.double().unsqueeze(-1))


def test_dual_level() -> None:
    torch.manual_seed(0)
    k = 1024
    operands = []
    for rows in (M, N):
        made = torch_npu.npu_dynamic_dual_level_mx_quant(torch.randn(rows, k).half())
        operands.append(made)
    (x, x0, x1), (w, w0, w1) = operands
    bias = torch.randn(N)

    def product(x, w, x0, w0, x1, w1, bias):
        return torch_npu.npu_dual_level_quant_matmul(x, w, x0, w0, x1, w1, bias=bias)

    wide = [
        values_of(t, second) * first.double().repeat_interleave(512, -1)
        for t, first, second in operands
    ]
    wanted = wide[0] @ wide[1].t() + bias.double()
    for function in (product, compiled(product)):
        found = function(x, w, x0, w0.t().contiguous(), x1, w1, bias)
        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found.double(), wanted, atol=0.3, rtol=1e-2)


@pytest.mark.parametrize("transposed", [False, True])
def test_transposed_batches_of_blocks(transposed) -> None:
    torch.manual_seed(0)
    b = 3
    x, xs = quantised(M, b, K, dtype=torch.float8_e4m3fn)
    w, ws = quantised(b, N, K, dtype=torch.float8_e4m3fn)
    order = [0, 2, 1] if transposed else [0, 1, 2]

    def product(x, w, xs, ws):
        return torch_npu.npu_transpose_quant_batchmatmul(
            x,
            w if transposed else w.transpose(1, 2).contiguous(),
            dtype=torch.bfloat16,
            x1_scale=xs.view(torch.float8_e8m0fnu),
            x2_scale=(ws if transposed else ws.transpose(1, 2)).view(
                torch.float8_e8m0fnu
            ),
            group_sizes=(0, 0, 32),
            perm_x1=(1, 0, 2),
            perm_x2=order,
            perm_y=(1, 0, 2),
        )

    wide = values_of(x, xs).transpose(0, 1) @ values_of(w, ws).transpose(1, 2)
    for function in (product, compiled(product)):
        close(function(x, w, xs, ws), wide.transpose(0, 1))


def test_transposed_batches_by_rows_and_columns() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(M, 2, 512), torch.randn(2, 512, 128)
    rows, columns = torch.rand(M), torch.rand(128)
    a, b = x.to(torch.float8_e4m3fn), w.to(torch.float8_e5m2)
    found = torch_npu.npu_transpose_quant_batchmatmul(
        a, b, torch.float16, x1_scale=rows, x2_scale=columns
    )
    wanted = (a.double().transpose(0, 1) @ b.double()).transpose(0, 1)
    wanted = wanted * columns.double() * rows.double().reshape(-1, 1, 1)
    torch.testing.assert_close(found.double(), wanted, atol=0.1, rtol=1e-2)
    kind = torch_npu.hifloat8
    a, b = (torch_npu.npu_dtype_cast(t, kind) for t in (x, w))
    found = torch_npu.npu_transpose_quant_batchmatmul(
        a, b, kind, x2_scale=columns, x1_dtype=kind, x2_dtype=kind
    )
    wide = HIFLOAT8.decode(a).transpose(0, 1) @ HIFLOAT8.decode(b)
    wanted = wide.transpose(0, 1) * columns
    assert found.dtype == torch.uint8
    torch.testing.assert_close(HIFLOAT8.decode(found), wanted, atol=0.1, rtol=0.13)


def test_what_does_not_fit() -> None:
    x, xs = quantised(M, K, dtype=torch.float8_e4m3fn)
    w, ws = quantised(N, K, dtype=torch.float8_e4m3fn)
    arguments = (x, w.t(), ws.transpose(0, 1))
    kinds = {"scale_dtype": E8M0, "pertoken_scale_dtype": E8M0}
    for more, text in (
        ({"pertoken_scale": xs, **kinds}, "output_dtype is needed"),
        ({"output_dtype": torch.float16, **kinds}, "pertoken_scale is needed"),
        (
            {"output_dtype": torch.float16, "pertoken_scale": xs[:, :1], **kinds},
            "pertoken_scale must have shape",
        ),
        (
            {"output_dtype": torch.int8, "pertoken_scale": xs, **kinds},
            "output_dtype must",
        ),
    ):
        with pytest.raises(RuntimeError, match=f"npu_quant_matmul: {text}"):
            torch_npu.npu_quant_matmul(*arguments, **more)


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2, "hifloat8"])
@pytest.mark.parametrize("height", [1, 128])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_quant_matmul_of_blocks_of_128(kind, height, batch) -> None:
    torch.manual_seed(0)
    m, k, n = 130, 160, 140
    a, b = torch.randn(*batch, m, k), torch.randn(*batch, k, n)
    number = torch_npu.hifloat8 if kind == "hifloat8" else None
    if number is None:
        a, b = a.to(kind), b.to(kind)
        left, right = a.double(), b.double()
    else:
        a, b = (torch_npu.npu_dtype_cast(t, number) for t in (a, b))
        left, right = HIFLOAT8.decode(a).double(), HIFLOAT8.decode(b).double()
    rows = torch.rand(*batch, -(-m // height), 2)
    columns = torch.rand(*batch, 2, 2)

    def spread(table, high, shape):
        wide = table.double().repeat_interleave(high, -2).repeat_interleave(128, -1)
        return wide[..., : shape[-2], : shape[-1]]

    wanted = (left * spread(rows, height, left.shape)) @ (
        right * spread(columns, 128, right.shape)
    )

    def product(a, b, rows, columns):
        return torch_npu.npu_quant_matmul(
            a,
            b,
            columns,
            pertoken_scale=rows,
            output_dtype=torch.float32,
            x1_dtype=number,
            x2_dtype=number,
            group_sizes=[height, 128, 128],
        )

    for function in (product, compiled(product)):
        close(function(a, b, rows, columns), wanted)
    given = {"pertoken_scale": rows, "output_dtype": torch.float32}
    given |= {"x1_dtype": number, "x2_dtype": number}
    for options, words in (
        ({"pertoken_scale": None}, "pertoken_scale is needed for blocks"),
        ({"group_sizes": [height, 64, 128]}, "group_sizes must be"),
        ({"pertoken_scale": rows[..., :1]}, "pertoken_scale must have shape"),
    ):
        with pytest.raises(RuntimeError, match=words):
            torch_npu.npu_quant_matmul(a, b, columns, **given | options)
    with pytest.raises(RuntimeError, match="scale must have shape"):
        torch_npu.npu_quant_matmul(a, b, columns[..., :1], **given)
