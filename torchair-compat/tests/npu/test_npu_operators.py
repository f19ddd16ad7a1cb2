"""Operators of torch_npu equal models in int64 and float64."""

import pytest
import torch

import anabranch
import torch_npu
import torchair

torch.manual_seed(0)


def int8(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def compiled(function):
    return torch.compile(function, backend=torchair.get_npu_backend(), dynamic=False)


def rounded(values: torch.Tensor) -> torch.Tensor:
    return values.round().clamp(-128, 127).to(torch.int8)


# npu_quant_matmul


@pytest.mark.checklist("T145")
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 16), (16, 8)),
        ((1, 7), (7, 5)),
        ((17, 33), (33, 19)),
        ((2, 3, 16), (16, 8)),
        ((2, 3, 16), (2, 16, 8)),
        ((4, 1, 3, 16), (2, 16, 8)),
    ],
)
@pytest.mark.parametrize(
    "kind", [torch.bfloat16, torch.float16, torch.int8, torch.int32]
)
def test_quant_matmul(left, right, kind) -> None:
    x1, x2 = int8(*left), int8(*right)
    scale = torch.rand(right[-1]) * 1e-3
    whole = torch.matmul(x1.long(), x2.long())
    product = whole.double() * scale.double()
    found = torch_npu.npu_quant_matmul(x1, x2, scale, output_dtype=kind)
    assert found.dtype == kind
    if kind == torch.int32:
        assert torch.equal(found, whole.int())
    elif kind == torch.int8:
        assert (found.long() - rounded(product).long()).abs().max() <= 1
    else:
        torch.testing.assert_close(found.double(), product, rtol=8e-3, atol=1e-6)


@pytest.mark.checklist("T145")
def test_sums_beyond_what_a_float_holds() -> None:
    k = 70_000
    x1 = torch.full((2, k), 127, dtype=torch.int8)
    x1[1, 0] = 126
    x2 = torch.full((k, 3), 127, dtype=torch.int8)
    found = torch_npu.npu_quant_matmul(x1, x2, torch.ones(1), output_dtype=torch.int32)
    assert found[0, 0] == 127 * 127 * k
    assert found[1, 0] == 127 * 127 * k - 127


def test_the_order_of_scale_token_and_bias() -> None:
    x1, x2 = int8(5, 32), int8(32, 6)
    scale, token, bias = torch.randn(6), torch.randn(5), torch.randn(6)
    found = torch_npu.npu_quant_matmul(
        x1, x2, scale, pertoken_scale=token, bias=bias, output_dtype=torch.bfloat16
    )
    total = torch.matmul(x1.int(), x2.int()).float()
    expected = ((total * scale) * token[:, None] + bias).bfloat16()
    assert torch.equal(found, expected)
    whole = torch.randint(-5, 5, (6,), dtype=torch.int32)
    found = torch_npu.npu_quant_matmul(
        x1, x2, scale, offset=torch.randn(6) * 3, bias=whole
    )
    assert found.dtype == torch.int8


def test_a_transposed_weight() -> None:
    x1, x2, scale = int8(4, 24), int8(10, 24).t(), torch.rand(10)
    kind = torch.float16
    found = torch_npu.npu_quant_matmul(x1, x2, scale, output_dtype=kind)
    expected = torch_npu.npu_quant_matmul(x1, x2.contiguous(), scale, output_dtype=kind)
    assert torch.equal(found, expected)


def pack(values: torch.Tensor) -> torch.Tensor:
    nibbles = (values.long() & 15).unflatten(-1, (-1, 8))
    word = (nibbles << torch.arange(0, 32, 4)).sum(-1)
    return torch.where(word >= 2**31, word - 2**32, word).int()


@pytest.mark.checklist("T145")
def test_packed_int4() -> None:
    x1 = torch.randint(-8, 8, (3, 16))
    x2 = torch.randint(-8, 8, (16, 24))
    scale = torch.rand(24)
    expected = ((x1 @ x2).float() * scale).half()
    for weight in (pack(x2), pack(x2.t().contiguous()).t()):
        found = torch_npu.npu_quant_matmul(
            pack(x1), weight, scale, output_dtype=torch.float16
        )
        assert torch.equal(found, expected)


@pytest.mark.parametrize("mode", [0, 1])
def test_scales_as_codes(mode) -> None:
    scale, offset = (
        torch.rand(6) + 0.1,
        torch.tensor([0.4, -3.0, 300.0, -300.0, 7.5, 0]),
    )
    code = torch_npu.npu_trans_quant_param(scale, offset, mode)
    assert code.dtype == torch.int64
    assert (code >> 46 & 1).all()
    assert (code & 0x1FFF == 0).all()
    shared = torch_npu.npu_trans_quant_param(scale[:1], offset, mode)
    wanted = torch_npu.npu_trans_quant_param(scale[:1].expand(6), offset, mode)
    assert torch.equal(shared, wanted)
    x1, x2 = int8(5, 8), int8(8, 6)
    kept = (code & 0xFFFFFFFF).int().view(torch.float32)
    torch.testing.assert_close(kept, scale, rtol=2**-10, atol=0)
    found = torch_npu.npu_quant_matmul(x1, x2, code)
    whole = torch.matmul(x1.int(), x2.int()).float()
    shift = offset.round().clamp(-256, 255)
    assert torch.equal(found, rounded(whole * kept + shift))


@pytest.mark.checklist("T145")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x1": int8(3, 4, 5)[0, 0]}, "x1 must have 2 to 6 dimensions"),
        ({"x1": int8(3, 5)}, "last dimension of x1"),
        ({"x1": torch.randn(3, 4)}, "must both be int8 or int32"),
        ({"scale": torch.rand(3)}, "scale must have shape"),
        ({"scale": torch.rand(5).double()}, "no such combination of dtypes"),
        ({"offset": torch.rand(5)}, "no such combination of dtypes"),
        ({"pertoken_scale": torch.rand(4)}, "pertoken_scale must have shape"),
        ({"bias": torch.rand(4)}, "bias must have shape"),
        ({"output_dtype": torch.float64}, "output_dtype must be"),
        ({"group_sizes": [1, 2]}, "group_sizes must be 3 numbers"),
        ({"y_scale": torch.rand(1)}, "must be None"),
    ],
)
@pytest.mark.parametrize("in_graph", [False, True])
def test_wrong_products(change, words, in_graph) -> None:
    arguments = {
        "x1": int8(3, 4),
        "x2": int8(4, 5),
        "scale": torch.rand(5),
        "output_dtype": torch.bfloat16,
    } | change

    def call(x1, x2, scale, **others):
        return torch_npu.npu_quant_matmul(x1, x2, scale, **others)

    with pytest.raises(RuntimeError, match=words):
        (compiled(call) if in_graph else call)(**arguments)


# npu_dequant_swiglu_quant


def swiglu(values: torch.Tensor, left: bool) -> torch.Tensor:
    a, b = values.double().chunk(2, -1)
    return torch.nn.functional.silu(a) * b if left else torch.nn.functional.silu(b) * a


def near(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Asserts equality, except of results halfway between two integers."""
    difference = (found.long() - expected.long()).abs()
    assert difference.max() <= 1
    assert (difference > 0).float().mean() < 0.01


@pytest.mark.checklist("T146")
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("left", [False, True])
def test_the_page_of_super_kernels(kind, left) -> None:
    x = (torch.randn(9, 32) * 8).to(kind)
    ignored = torch.randn(9, 32)
    y, scale = torch_npu.npu_dequant_swiglu_quant(
        x, weight_scale=ignored, activate_left=left
    )
    near(y, rounded(swiglu(x, left)))
    assert torch.equal(scale, torch.zeros(9))


@pytest.mark.checklist("T146")
def test_dequantised_rows_with_dynamic_scales() -> None:
    x = torch.randint(-1000, 1000, (2, 4, 16), dtype=torch.int32)
    weight, token = torch.rand(16), torch.rand(8, 1)
    smooth = torch.rand(1, 8)
    y, scale = torch_npu.npu_dequant_swiglu_quant(
        x, weight_scale=weight, activation_scale=token, quant_scale=smooth, quant_mode=1
    )
    values = x.reshape(8, 16).double() * weight.double() * token.double()
    gated = swiglu(values, False) * smooth.double()
    expected = gated.abs().amax(-1) / 127
    torch.testing.assert_close(scale.double(), expected, rtol=1e-5, atol=0)
    near(y, rounded(gated / expected[:, None]))


@pytest.mark.checklist("T146")
def test_groups_of_rows() -> None:
    x = torch.randint(-100, 100, (7, 8), dtype=torch.int32)
    weight, scales = torch.rand(3, 8) * 0.1, torch.tensor([0.5, 1.0, 2.0])
    counts = torch.tensor([2, 0, 4])
    y, scale = torch_npu.npu_dequant_swiglu_quant(
        x, weight_scale=weight, quant_scale=scales, group_index=counts
    )
    assert torch.equal(y[6], torch.zeros(4, dtype=torch.int8))
    assert torch.equal(scale, torch.zeros(7))
    for rows, group in ((slice(0, 2), 0), (slice(2, 6), 2)):
        values = x[rows].double() * weight[group].double()
        near(y[rows], rounded(swiglu(values, False) / scales[group].double()))


@pytest.mark.checklist("T146")
@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("left", [False, True])
def test_clamped_gates(mode, left) -> None:
    x = torch.randn(4, 12) * 10
    y, _ = torch_npu.npu_dequant_swiglu_quant(
        x, swiglu_mode=mode, activate_left=left, clamp_limit=3.0
    )
    wide = x.double()
    gate, linear = (wide[:, 0::2], wide[:, 1::2]) if mode == 1 else wide.chunk(2, -1)
    if mode == 2 and not left:
        gate, linear = linear, gate
    gate, linear = gate.clamp(max=3), linear.clamp(-3, 3)
    near(y, rounded(gate * torch.sigmoid(1.702 * gate) * (linear + 1)))


@pytest.mark.parametrize(
    ("x", "options", "words"),
    [
        (torch.randn(2, 5), {}, "even last dimension"),
        (torch.randn(6), {}, "2 or more dimensions"),
        (torch.ones(2, 4, dtype=torch.int32), {}, "weight_scale is needed"),
        (torch.randn(2, 4), {"bias": torch.rand(4)}, "bias must be None"),
        (torch.randn(2, 4), {"quant_mode": 2}, "no such quant_mode"),
        (torch.randn(2, 4), {"swiglu_mode": 3}, "no such swiglu_mode"),
        (torch.ones(2, 4, dtype=torch.int64), {}, "x must be int32, float16"),
    ],
)
def test_wrong_gates(x, options, words) -> None:
    with pytest.raises(RuntimeError, match=words):
        torch_npu.npu_dequant_swiglu_quant(x, **options)


# The others


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
def test_norms(kind) -> None:
    x, other, gamma = (
        torch.randn(*shape).to(kind) for shape in ((3, 5, 8), (3, 5, 8), (8,))
    )
    tolerance = (
        {"rtol": 1e-5, "atol": 1e-5}
        if kind == torch.float32
        else {"rtol": 1e-2, "atol": 1e-2}
    )
    y, rstd = torch_npu.npu_rms_norm(x, gamma, 1e-5)
    wide = x.double()
    expected = 1 / (wide.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(rstd.double(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        y.double(), wide * expected * gamma.double(), **tolerance
    )
    assert y.dtype == kind
    assert rstd.shape == (3, 5, 1)
    again, rstd, total = torch_npu.npu_add_rms_norm(x, other, gamma)
    assert torch.equal(total, x + other)
    assert torch.equal(again, torch_npu.npu_rms_norm(total, gamma)[0])


def test_swiglu_activates_the_first_half() -> None:
    x = torch.randn(3, 8)
    found = torch_npu.npu_swiglu(x)
    torch.testing.assert_close(found.double(), swiglu(x, True), rtol=1e-5, atol=1e-6)
    assert torch_npu.npu_swiglu(x[:2], 0).shape == (1, 8)


def test_dynamic_quant() -> None:
    x = torch.randn(2, 3, 8, dtype=torch.bfloat16)
    x[0, 0] = 0
    y, scale = torch_npu.npu_dynamic_quant(x)
    expected = x.double().abs().amax(-1) / 127
    expected[0, 0] = 1
    torch.testing.assert_close(scale.double(), expected, rtol=1e-6, atol=0)
    near(y, rounded(x.double() / expected[..., None]))
    rows, smooth = torch.randn(5, 8), torch.rand(2, 8) + 0.5
    y, scale = torch_npu.npu_dynamic_quant(
        rows, smooth_scales=smooth, group_index=torch.tensor([2, 5])
    )
    values = rows.double() * smooth.double()[[0, 0, 1, 1, 1]]
    expected = values.abs().amax(-1) / 127
    torch.testing.assert_close(scale.double(), expected, rtol=1e-6, atol=0)
    near(y, rounded(values / expected[:, None]))


def test_rotary() -> None:
    x, r1, r2 = (
        torch.randn(2, 3, 4, 8),
        torch.randn(1, 3, 1, 8),
        torch.randn(1, 3, 1, 8),
    )
    half = torch.cat((-x[..., 4:], x[..., :4]), -1)
    assert torch.equal(torch_npu.npu_rotary_mul(x, r1, r2), x * r1 + half * r2)
    pairs = torch.empty_like(x)
    pairs[..., 0::2], pairs[..., 1::2] = -x[..., 1::2], x[..., 0::2]
    found = torch_npu.npu_rotary_mul(x, r1, r2, rotary_mode="interleave")
    assert torch.equal(found, x * r1 + pairs * r2)
    with pytest.raises(RuntimeError, match="rotary_mode"):
        torch_npu.npu_rotary_mul(x, r1, r2, rotary_mode="quarter")


@pytest.mark.checklist("T147")
def test_formats() -> None:
    x = int8(4, 6)
    tagged = torch_npu.npu_format_cast(x, 29)
    assert tagged is not x
    assert torch.equal(tagged, x)
    assert torch_npu.get_npu_format(tagged) == torch_npu.Format.FRACTAL_NZ == 29
    assert torch_npu.get_npu_format(tagged + 1) == torch_npu.Format.ND
    assert torch_npu.get_npu_format(torch.zeros(1, 2, 3, 4)) == torch_npu.Format.NCHW
    torch_npu.npu_format_cast_(x, torch_npu.Format.FRACTAL_NZ)
    assert torch_npu.get_npu_format(x) == 29
    with pytest.raises(RuntimeError, match="no such format: 5"):
        torch_npu.npu_format_cast(x, 5)


def test_all_in_kernels() -> None:
    """PyTorch runs no part of the operators."""
    x, gamma = torch.randn(9, 64).bfloat16(), torch.randn(64).bfloat16()
    angle = torch.randn(2, 5, 1, 64)
    work = [
        (torch_npu.npu_dynamic_quant, (x,)),
        (torch_npu.npu_swiglu, (x,)),
        (torch_npu.npu_rms_norm, (x, gamma)),
        (torch_npu.npu_add_rms_norm, (x, x, gamma)),
        (torch_npu.npu_rotary_mul, (torch.randn(2, 5, 4, 64), angle, angle)),
        (torch_npu.npu_dequant_swiglu_quant, (x,)),
        (torch_npu.npu_quant_matmul, (int8(9, 64), int8(64, 20), torch.rand(20))),
        (torch_npu.npu_quant_matmul, (int8(2, 9, 64), int8(2, 64, 20), torch.rand(1))),
    ]
    for operator, arguments in work:
        anabranch.counters.reset()
        found = compiled(lambda *given, of=operator: of(*given))(*arguments)
        torch.testing.assert_close(found, operator(*arguments))
        assert anabranch.counters.graphs == 1
        assert not anabranch.counters.fallback_calls + anabranch.counters.eager_graphs


def test_in_graphs_as_outside() -> None:
    """Our kernels run the page's pair of operators in graphs, with eager's results."""

    def pair(x1, x2, scale, token):
        product = torch_npu.npu_quant_matmul(
            x1, x2, scale, pertoken_scale=token, output_dtype=torch.bfloat16
        )
        return product, *torch_npu.npu_dequant_swiglu_quant(product)

    arguments = (int8(8, 64), torch_npu.npu_format_cast(int8(64, 32), 29))
    arguments += (torch.randn(32) * 1e-2, torch.randn(8))
    expected, found = pair(*arguments), compiled(pair)(*arguments)
    assert torch.equal(found[0], expected[0])
    near(found[1], expected[1])
    assert torch.equal(found[2], expected[2])


def test_operators_have_their_names_in_torch_ops() -> None:
    assert torch.ops.npu.npu_swiglu is torch_npu.npu_swiglu
    assert torch.ops.npu.npu_quant_matmul(int8(2, 3), int8(3, 4), torch.ones(1)).shape
    x = torch.randn(2, 4, device="meta")
    y, scale = torch.ops.npu.npu_dequant_swiglu_quant(x)
    assert y.shape == (2, 2)
    assert scale.device.type == "meta"
