"""Sums of integers, products that are added, and the next step of decoding, against float64
and loops in Python."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled

F8, E8 = torch.float8_e4m3fn, torch.float8_e8m0fnu


@pytest.mark.parametrize("bias", [None, torch.int32, torch.float32, torch.float16])
def test_sums_of_integers(bias) -> None:
    x = torch.randint(-999, 999, (3, 8), dtype=torch.int32)
    columns, rows = torch.rand(8), torch.rand(3)
    extra = None if bias is None else (torch.randn(8) * 9).to(bias)
    wanted = x.double()
    if bias == torch.int32:
        wanted = wanted + extra.double()
    wanted = wanted * columns.double() * rows.double()[:, None]
    if bias not in (None, torch.int32):
        wanted = wanted + extra.double()

    def function(x, columns, rows, extra):
        told = {"output_dtype": torch.bfloat16}
        return torch_npu.npu_dequant_bias(x, columns, rows, extra, **told)

    for run in (function, compiled(function)):
        torch.testing.assert_close(run(x, columns, rows, extra), wanted.bfloat16())


@pytest.mark.parametrize("mx", [False, True])
def test_added_products(mx) -> None:
    x1, x2, base = (
        torch.randn(128, 4).to(F8),
        torch.randn(128, 6).to(F8),
        torch.randn(4, 6),
    )
    left, right = x1.float().double(), x2.float().double()
    if mx:
        scales = [(2.0 ** torch.randint(-2, 3, (2, n, 2))).to(E8) for n in (4, 6)]
        wide = [s.float().double().permute(0, 2, 1).flatten(0, 1) for s in scales]
        left, right = (
            t * s.repeat_interleave(32, 0) for t, s in zip((left, right), wide)
        )
        told = {"x1_scale": scales[0], "group_sizes": [1, 1, 32]}
    else:
        scales = [torch.tensor([0.5]), torch.tensor([0.25])]
        left, told = left / 8, {"x1_scale": scales[0]}
    wanted = base.double() + left.t() @ right
    made = torch_npu.npu_add_quant_matmul(base, x1, x2, scales[1], **told)
    torch.testing.assert_close(made.double(), wanted, atol=1e-3, rtol=1e-4)
    assert torch_npu.npu_add_quant_matmul_(base, x1, x2, scales[1], **told) is base
    assert torch.equal(base, made)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_added_groups(dtype, flat) -> None:
    x, weight, ends = (
        torch.randn(7, 4).to(dtype),
        torch.randn(7, 6).to(dtype),
        [2, 2, 7],
    )
    base = torch.randn(12, 6) if flat else torch.randn(3, 4, 6)
    parts = [slice(0, 2), slice(2, 2), slice(2, 7)]
    sums = torch.stack([x[p].double().t() @ weight[p].double() for p in parts])
    wanted = base.double() + sums.reshape(base.shape)
    groups = torch.tensor(ends)
    made = compiled(torch_npu.npu_grouped_matmul_add)(base, x, weight, groups)
    torch.testing.assert_close(made.double(), wanted, atol=1e-4, rtol=1e-4)
    torch_npu.npu_grouped_matmul_add_(base, x, weight, groups)
    torch.testing.assert_close(base, made)


@pytest.mark.parametrize("mode", ["pertoken", "pertensor", "given"])
def test_quantised_rows(mode) -> None:
    x, weight = (
        torch.randn(3, 16).half(),
        torch.randint(-99, 99, (5, 16)).to(torch.int8),
    )
    columns, smooth = torch.rand(5) / 99, torch.rand(16) + 0.5
    scale = {
        "pertoken": None,
        "pertensor": torch.tensor([0.02]),
        "given": torch.rand(3),
    }
    wide = x.double() * smooth.double()
    factor = scale[mode]
    told = {"x_scale": factor, "smooth_scale": smooth}
    told |= {"quant_mode": "pertoken" if mode == "given" else mode}
    steps = wide.abs().amax(-1) / 127 if factor is None else factor.double().expand(3)
    rows = (wide / steps[:, None]).round().clamp(-128, 127)
    wanted = rows @ weight.double().t() * columns.double() * steps[:, None]
    made = torch_npu.npu_quant_matmul_dequant(x, weight, columns, **told)
    # A row may round one element the other way.
    step = (weight.double().abs().amax(1) * columns.double()) * steps[:, None]
    assert ((made.double() - wanted).abs() <= step + wanted.abs() / 500).all()


@pytest.mark.parametrize("bias", [None, torch.int32, torch.float32])
def test_quantised_convolution(bias) -> None:
    x = torch.randint(-128, 128, (2, 4, 7, 6)).to(torch.int8)
    weight = torch.randint(-128, 128, (6, 2, 3, 2)).to(torch.int8)
    scale = torch.rand(6) / 999
    extra = None if bias is None else (torch.randn(6) * 99).to(bias)
    told = {"strides": [2, 1], "pads": [1, 0], "dilations": [1, 2], "groups": 2}

    def function(x, weight, scale, extra):
        more = {"bias": extra, "offset_x": 3, "output_dtype": 15}
        return torch_npu.npu_quant_conv2d(x, weight, scale, **told, **more)

    padded = torch.nn.functional.pad(x.double(), (0, 0, 1, 1), value=3.0)
    layer = {"stride": [2, 1], "dilation": [1, 2], "groups": 2}
    wanted = torch.nn.functional.conv2d(padded, weight.double(), **layer)
    shape = (1, 6, 1, 1)
    if bias == torch.int32:
        wanted = wanted + extra.double().reshape(shape)
    wanted = wanted * scale.double().reshape(shape)
    if bias == torch.float32:
        wanted = wanted + extra.double().reshape(shape)
    for run in (function, compiled(function)):
        torch.testing.assert_close(run(x, weight, scale, extra), wanted.bfloat16())


def test_next_step() -> None:
    tokens, positions, lengths = (torch.randint(1, 20, (4,)) for _ in range(3))
    slots, tables = torch.randint(0, 9, (4,)), torch.randint(0, 9, (4, 6))
    sampled = torch.randint(0, 9, (3, 1))
    before = lengths.tolist()
    torch_npu.npu_advance_step_flashattn(
        tokens, sampled, positions, lengths, slots, tables, 4, 3, 4
    )
    assert tokens.tolist() == [*sampled.flatten().tolist(), 0]
    assert positions.tolist() == [*before[:3], 0]
    assert lengths.tolist() == [*(one + 1 for one in before[:3]), before[3]]
    wanted = [int(tables[row, p // 4]) * 4 + p % 4 for row, p in enumerate(before[:3])]
    assert slots.tolist() == [*wanted, -1]


def test_next_step_with_drafts() -> None:
    drafts, rows = 2, 3
    tensors = [torch.randint(0, 8, (rows * 3,)) for _ in range(4)]
    tables, accepted = torch.randint(0, 9, (rows, 6)), torch.tensor([0, 2, 1])
    sampled = torch.tensor([[5, -1, -1], [4, 6, 7], [1, 2, -1]])
    spec = torch.randint(0, 9, (rows, drafts))
    before = tensors[1].tolist()

    def function(tokens, positions, lengths, slots):
        torch_npu.npu_advance_step_flashattn(
            *(tokens, sampled, positions, lengths, slots, tables, rows, rows, 4),
            spec_token=spec,
            accepted_num=accepted,
        )

    compiled(function)(*tensors)
    tokens, positions, lengths, slots = tensors
    wanted = torch.cat([torch.tensor([[5], [7], [2]]), spec], 1)
    assert torch.equal(tokens, wanted.flatten())
    moved = [p + 1 + int(accepted[place // 3]) for place, p in enumerate(before)]
    assert positions.tolist() == moved
    assert lengths.tolist() == [p + 1 for p in moved]
    found = [int(tables[i // 3, p // 4]) * 4 + p % 4 for i, p in enumerate(moved)]
    assert slots.tolist() == found


def test_exponential_numbers() -> None:
    x = torch.empty(20000)
    generator = torch.Generator().manual_seed(3)
    torch_npu.npu_sim_exponential_(x, 2.0, generator=generator)
    again = torch.empty(20000)
    torch_npu.npu_sim_exponential_(again, 2.0, generator=generator.manual_seed(3))
    assert torch.equal(x, again)
    assert x.min() > 0
    assert abs(float(x.mean()) - 0.5) < 0.02
    assert not torch_npu.npu_sim_exponential_(x, float("inf")).any()
    for rate in (0.0, -1.0):
        with pytest.raises(RuntimeError, match="expects lambd > 0.0"):
            torch_npu.npu_sim_exponential_(x, rate)


@pytest.mark.parametrize("masked", [False, True])
def test_floyd_attention(masked) -> None:
    b, h, n, m, k, d = 2, 2, 3, 4, 5, 8
    query = torch.randn(b, h, n, m, d).half()
    pairs = [torch.randn(b, h, n, k, d).half() for _ in range(2)]
    thirds = [torch.randn(b, h, k, m, d).half() for _ in range(2)]
    mask = torch.rand(b, 1, n, 1, k) < 0.4 if masked else None
    if masked:
        mask[0, 0, 1] = True
    first, second, left, right = (
        t.double() for t in (pairs[0], thirds[0], pairs[1], thirds[1])
    )
    scores = torch.einsum("bhnmd,bhnkd->bhnmk", query.double(), first)
    scores = (scores + torch.einsum("bhnmd,bhkmd->bhnmk", query.double(), second)) * 0.3
    if masked:
        scores = scores.masked_fill(mask, -torch.inf)
    weights = scores.softmax(-1).nan_to_num()
    wanted = torch.einsum("bhnmk,bhnkd->bhnmd", weights, left)
    wanted = wanted + torch.einsum("bhnmk,bhkmd->bhnmd", weights, right)

    def function(query, a, b, c, d):
        told = {"atten_mask": mask, "scale_value": 0.3}
        return torch_npu.npu_fused_floyd_attention(query, a, b, c, d, **told)

    operands = query, pairs[0], pairs[1], thirds[0], thirds[1]
    for run in (function, compiled(function)):
        largest, total, made = run(*operands)
        torch.testing.assert_close(made.double(), wanted, atol=3e-3, rtol=3e-3)
        near = {"atol": 1e-4, "rtol": 1e-4}
        torch.testing.assert_close(largest[..., 0].double(), scores.amax(-1), **near)
        seen = (scores - scores.amax(-1, keepdim=True)).exp().nan_to_num().sum(-1)
        torch.testing.assert_close(total[..., 7].double(), seen, **near)


def test_wrong_arguments() -> None:
    from operator_calls import CALLS

    for name, change, text in (
        (
            "npu_dequant_bias",
            {"output_dtype": torch.int8},
            "output_dtype must be float16",
        ),
        ("npu_dequant_bias", {"weight_scale": torch.ones(3)}, "weight_scale must have"),
        ("npu_add_quant_matmul", {"x1_scale": None}, "x1_scale is needed"),
        (
            "npu_add_quant_matmul",
            {"group_sizes": [1, 1, 32]},
            "group_sizes must be None",
        ),
        ("npu_grouped_matmul_add", {"transpose_x": False}, "transpose_x must be True"),
        (
            "npu_quant_matmul_dequant",
            {"quant_mode": "no"},
            "quant_mode must be pertoken",
        ),
        (
            "npu_quant_matmul_dequant",
            {"x_offset": torch.ones(1)},
            "x_offset must be None",
        ),
        ("npu_quant_conv2d", {"round_mode": "floor"}, "round_mode must be rint"),
        ("npu_quant_conv2d", {"offset_x": 200}, "offset_x must be from -128 to 127"),
        (
            "npu_fused_floyd_attention",
            {"atten_mask": torch.ones(2).bool()},
            "atten_mask",
        ),
    ):
        with pytest.raises(RuntimeError, match=f"{name}: .*{text}"):
            getattr(torch_npu, name)(**{**CALLS[name], **change})
    steps = CALLS["npu_advance_step_flashattn"][1]
    for change, text in (
        ({"num_queries": 4}, "num_queries must be from 1 to num_seqs 3, got 4"),
        ({"spec_token": None}, "spec_token and accepted_num go together"),
        ({"block_size": 0}, "block_size must be positive"),
    ):
        with pytest.raises(RuntimeError, match=f"npu_advance_step_flashattn: .*{text}"):
            torch_npu.npu_advance_step_flashattn(**{**steps, **change})
