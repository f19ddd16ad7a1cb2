"""Grouped products of integers with a gate, with routing and with quantised rows, against
loops in float64, in graphs and outside."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from agreement import both

M, K, N, GROUPS, PARTS = 9, 16, 32, 3, 2
SIZES = [4, 0, 3]  # two rows belong to no group
F32 = torch.float32


def lists(kind):
    sizes = torch.tensor(SIZES)
    return sizes if kind == 1 else sizes.cumsum(0)


def slices():
    start = 0
    for group, size in enumerate(SIZES):
        yield group, slice(start, start + size)
        start += size


def integers(*shape, most=7):
    return torch.randint(-most - 1, most + 1, shape, dtype=torch.int32)


def pack(values):
    """Eight int4 in each int32, by a loop."""
    made = torch.zeros(*values.shape[:-1], values.shape[-1] // 8, dtype=torch.int64)
    for place in range(8):
        made += (values[..., place::8].long() & 15) << (4 * place)
    return (((made + 2**31) % 2**32) - 2**31).to(torch.int32)


def gated(values):
    left, right = values.chunk(2, -1)
    return left * left.sigmoid() * right


def check_quantised(found, wanted) -> None:
    values, scales = found
    most = wanted.abs().amax(-1) / 127
    inside = most > 0
    torch.testing.assert_close(scales.double(), most, atol=1e-5, rtol=1e-4)
    near = values.double() * scales.double().unsqueeze(-1)
    assert ((near - wanted).abs() <= 0.51 * most.unsqueeze(-1) + 1e-6).all()
    assert not values[~inside].any()


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("scale", [torch.float32, torch.float16, torch.bfloat16])
def test_gate_of_int8(scale, kind) -> None:
    x, weight = (
        integers(M, K, most=100).to(torch.int8),
        integers(GROUPS, K, N, most=100),
    )
    weight = weight.to(torch.int8)
    scales, tokens = torch.rand(GROUPS, N).to(scale) / 99, torch.rand(M) / 99

    def function(x, weight, scales, tokens, groups):
        return torch_npu.npu_grouped_matmul_swiglu_quant_v2(
            x, [weight], [scales], tokens, groups, group_list_type=kind
        )

    found = both(function, x, weight, scales, tokens, lists(kind), atol=1, rtol=1e-4)
    wanted = torch.zeros(M, N // 2, dtype=torch.float64)
    for group, rows in slices():
        made = x[rows].double() @ weight[group].double()
        made = made * scales[group].double() * tokens[rows].double().unsqueeze(-1)
        wanted[rows] = gated(made)
    check_quantised(found, wanted)


def test_gate_of_single_tensors() -> None:
    """npu_grouped_matmul_swiglu_quant has the bits of its second version, for weights of
    int8 and of int4, and errors of its own name."""
    x, tokens = integers(M, K, most=100).to(torch.int8), torch.rand(M) / 9
    weight, code, _, assist = mixed(PARTS)
    wide = integers(GROUPS, K, N, most=100).to(torch.int8), torch.rand(GROUPS, N)
    single = torch_npu.npu_grouped_matmul_swiglu_quant
    for right, scale, bias in ((*wide, None), (pack(weight), code, assist)):
        extra = {} if bias is None else {"weight_assist_matrix": [bias]}
        wanted = torch_npu.npu_grouped_matmul_swiglu_quant_v2(
            x, [right], [scale], tokens, lists(0), dequant_mode=len(extra), **extra
        )

        def function(x, right, groups, scale, tokens, bias):
            return single(x, right, groups, scale, tokens, bias=bias)

        found = both(function, x, right, lists(0), scale, tokens, bias)
        torch.testing.assert_close(found[:2], wanted, rtol=0, atol=0)
        assert found[2].shape == () and found[2].dtype == F32
    with pytest.raises(
        RuntimeError, match=r"^npu_grouped_matmul_swiglu_quant: bias goes"
    ):
        single(x, pack(weight), lists(0), code, tokens)
    with pytest.raises(RuntimeError, match=r"^npu_grouped_matmul_swiglu_quant: x must"):
        single(x.float(), wide[0], lists(0), wide[1], tokens)


@pytest.mark.parametrize("packed", [False, True])
def test_weights_in_blocks(packed) -> None:
    """A weight of five dimensions is one in blocks, or a view of one in FRACTAL_NZ."""
    x, tokens = integers(M, K, most=100).to(torch.int8), torch.rand(M) / 9
    if packed:
        values = integers(GROUPS, K, 64)
        weight, across = pack(values), 8
        scale = torch_npu.npu_trans_quant_param(torch.rand(GROUPS * 64)).view(
            GROUPS, 64
        )
        more = {"weight_assist_matrix": [torch.randn(GROUPS, 64)]}
    else:
        weight, across = integers(GROUPS, K, N, most=100).to(torch.int8), 32
        scale, more = torch.rand(GROUPS, N), {}

    def function(weight):
        return torch_npu.npu_grouped_matmul_swiglu_quant_v2(
            x, [weight], [scale], tokens, lists(0), **more
        )

    split = weight.reshape(GROUPS, K // 16, 16, -1, across)
    blocks = split.permute(0, 3, 1, 2, 4).contiguous()
    tagged = torch_npu.npu_format_cast(weight, 29).view(blocks.shape)
    for given in (blocks, tagged):
        torch.testing.assert_close(function(given), function(weight), rtol=0, atol=0)
    with pytest.raises(
        RuntimeError, match="weight of 5 dimensions must end with 16 and"
    ):
        function(blocks.transpose(3, 4))


@pytest.mark.parametrize("smooth", [None, (GROUPS,), (GROUPS, N // 2)])
def test_gate_of_int4(smooth) -> None:
    x, weight = integers(M, K), integers(GROUPS, K, N)
    scales, tokens = torch.rand(GROUPS, N) / 9, torch.rand(M) / 9
    factor = None if smooth is None else torch.rand(smooth) + 0.5
    found = torch_npu.npu_grouped_matmul_swiglu_quant_v2(
        pack(x), [pack(weight)], [scales], tokens, lists(0), smooth_scale=factor
    )
    wanted = torch.zeros(M, N // 2, dtype=torch.float64)
    for group, rows in slices():
        made = x[rows].double() @ weight[group].double()
        made = made * scales[group].double() * tokens[rows].double().unsqueeze(-1)
        wanted[rows] = gated(made) * (1 if factor is None else factor[group].double())
    check_quantised(found, wanted)


def mixed(parts):
    """A weight of int4, its scales as int64 and as f32, and what takes 8 away."""
    weight = integers(GROUPS, K, N)
    scales = torch.rand(GROUPS, parts, N) / 99
    code = torch_npu.npu_trans_quant_param(scales.reshape(-1)).reshape(scales.shape)
    exact = (scales.view(torch.int32) & -8192).view(torch.float32)
    per_row = exact.repeat_interleave(K // parts, 1).double()
    return weight, code, per_row, (8 * per_row * weight.double()).sum(1).float()


@pytest.mark.parametrize("parts", [1, PARTS])
def test_gate_of_int8_and_int4(parts) -> None:
    x = integers(M, K, most=100).to(torch.int8)
    weight, code, per_row, assist = mixed(parts)
    tokens = torch.rand(M) / 9
    code = code.squeeze(1) if parts == 1 else code
    found = torch_npu.npu_grouped_matmul_swiglu_quant_v2(
        x,
        [pack(weight)],
        [code],
        tokens,
        lists(0),
        weight_assist_matrix=[assist],
        dequant_mode=int(parts > 1),
    )
    wanted = torch.zeros(M, N // 2, dtype=torch.float64)
    for group, rows in slices():
        made = x[rows].double() @ (weight[group].double() * per_row[group])
        wanted[rows] = gated(made * tokens[rows].double().unsqueeze(-1))
    check_quantised(found, wanted)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("form", ["int8", "int4", "int4 parts", "offset"])
def test_finalize(form, shared, kind) -> None:
    x, tokens = integers(M, K, most=100).to(torch.int8), torch.rand(M) / 9
    logit, index = torch.randn(M), torch.randint(0, 5, (M,))
    logit[-1], rows_of = torch.nan, 5
    more, given, add = {}, None, 0.0
    if form == "int8":
        weight = integers(GROUPS, K, N, most=100)
        scale = torch.rand(GROUPS, N) / 99
        per_row, given = scale.double().unsqueeze(1), weight.to(torch.int8)
    else:
        weight, scale, per_row, bias = mixed(1 if form == "int4" else PARTS)
        given, more = pack(weight), {"bias": bias}
    if form == "offset":
        more["offset"] = torch.rand(GROUPS, PARTS, N) / 99
        add = more["offset"].repeat_interleave(K // PARTS, 1).double()
    if shared:
        more["shared_input"] = torch.randn(2, N).bfloat16()
    names = list(more)

    def function(x, weight, groups, scale, tokens, logit, index, *rest):
        return torch_npu.npu_grouped_matmul_finalize_routing(
            x,
            weight,
            groups,
            scale=scale,
            pertoken_scale=tokens,
            logit=logit,
            row_index=index,
            output_bs=rows_of,
            group_list_type=kind,
            shared_input_weight=0.5,
            shared_input_offset=2,
            **dict(zip(names, rest)),
        )

    operands = x, given, lists(kind), scale, tokens, logit, index, *more.values()
    found = both(function, *operands, atol=1e-3, rtol=1e-4, equal_nan=True)
    wanted = torch.zeros(rows_of, N, dtype=torch.float64)
    for group, rows in slices():
        factor = weight[group].double() * per_row[group]
        factor = factor + (add[group] if form == "offset" else 0)
        made = x[rows].double() @ factor
        made = made * (tokens[rows] * logit[rows]).double().unsqueeze(-1)
        wanted.index_add_(0, index[rows], made)
    if shared:
        wanted[2:4] += 0.5 * more["shared_input"].double()
    assert found.dtype == F32
    torch.testing.assert_close(found.double(), wanted, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("mode", ["pertoken", "given", "pertensor"])
@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_quantised_rows(dtype, smooth, mode) -> None:
    x, weight = torch.randn(M, K).to(dtype), integers(GROUPS, N, K, most=100)
    weight, scale = weight.to(torch.int8), torch.rand(GROUPS, N) / 99
    more = {"smooth_scale": (torch.rand(K) + 0.5).to(dtype)} if smooth else {}
    if mode != "pertoken":
        more["x_scale"] = torch.rand(1 if mode == "pertensor" else M) / 50 + 0.01
    names = list(more)

    def function(x, weight, scale, groups, *rest):
        return torch_npu.npu_quant_grouped_matmul_dequant(
            x,
            weight,
            scale,
            groups,
            quant_mode="pertensor" if mode == "pertensor" else "pertoken",
            **dict(zip(names, rest)),
        )

    operands = x, weight, scale, lists(0), *more.values()
    found = both(function, *operands, atol=2e-2, rtol=2e-2)
    wide = x.double() * (more["smooth_scale"].double() if smooth else 1)
    factor = more.get("x_scale", wide.abs().amax(-1) / 127).double()
    factor = factor.expand(M).unsqueeze(-1)
    rounded = (wide / factor).round().clamp(-128, 127) * factor
    wanted = torch.zeros(M, N, dtype=torch.float64)
    for group, rows in slices():
        made = rounded[rows] @ weight[group].double().t()
        wanted[rows] = made * scale[group].double()
    torch.testing.assert_close(found.double(), wanted, atol=3e-2, rtol=2e-2)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_add_to_gradients(dtype, flat) -> None:
    x, dy = torch.randn(M, K).to(dtype), torch.randn(M, N).to(dtype)
    grad = torch.randn(GROUPS, K, N)
    wanted = grad.double()
    for group, rows in slices():
        wanted[group] += x[rows].double().t() @ dy[rows].double()
    grad = grad.flatten(0, 1) if flat else grad

    def function(x, dy, groups, grad):
        torch_npu.npu_groupmatmul_add_fp32(x, dy, groups, grad)
        return grad + 0

    both(function, x, dy, lists(0), grad, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(
        grad.double(), wanted.reshape(grad.shape), atol=1e-4, rtol=1e-4
    )


def test_a_captured_product_reads_new_sizes() -> None:
    """A replay splits the rows by what group_list says then."""
    x, weight = torch.randn(6, K), torch.randn(2, K, N)
    sizes = torch.tensor([2, 4])
    captured = torch.npu.NPUGraph()
    with torch.no_grad(), torch.npu.graph(captured):
        [found] = torch_npu.npu_grouped_matmul(
            [x],
            [weight],
            group_list=sizes,
            split_item=3,
            group_type=0,
            group_list_type=1,
        )
    for first in (2, 5, 0):
        sizes.copy_(torch.tensor([first, 6 - first]))
        captured.replay()
        wanted = torch.cat([x[:first] @ weight[0], x[first:] @ weight[1]])
        torch.testing.assert_close(found, wanted)


GATE = {
    "x": torch.zeros(M, K, dtype=torch.int8),
    "weight": [torch.zeros(GROUPS, K, N, dtype=torch.int8)],
    "weight_scale": [torch.ones(GROUPS, N)],
    "x_scale": torch.ones(M),
    "group_list": torch.tensor(SIZES).cumsum(0),
}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"quant_mode": 2}, "quant_dtype must be float4_e2m1fn_x2.*, got int8"),
        ({"quant_mode": 1}, "quant_mode must be one of .*, got 1"),
        ({"dequant_mode": 2}, "weight_scale of 2 dimensions does not go with"),
        ({"dequant_mode": 1}, "weight_scale of 2 dimensions does not go with"),
        ({"weight": GATE["weight"] * 2}, "weight must have one tensor, got 2"),
        ({"bias": torch.ones(1)}, "bias must be None"),
        ({"group_list": torch.tensor([1, 2])}, r"group_list must have shape \(3,\)"),
        ({"group_list_type": 2}, "group_list_type must be 0 or 1, got 2"),
        ({"smooth_scale": torch.ones(GROUPS)}, "smooth_scale must be None for x of"),
        (
            {"weight_assist_matrix": [torch.ones(1)]},
            "goes with x of int8 and weight of",
        ),
        ({"x": torch.zeros(M, K)}, "x must be int8, int32"),
    ],
)
def test_gates_that_do_not_fit(change, text) -> None:
    name = "npu_grouped_matmul_swiglu_quant_v2"
    with pytest.raises(RuntimeError, match=f"{name}: .*{text}"):
        torch_npu.npu_grouped_matmul_swiglu_quant_v2(**GATE | change)


ROUTED = {
    "x": torch.zeros(M, K, dtype=torch.int8),
    "w": torch.zeros(GROUPS, K, N, dtype=torch.int8),
    "group_list": torch.tensor(SIZES),
    "scale": torch.ones(GROUPS, N),
    "pertoken_scale": torch.ones(M),
    "logit": torch.ones(M),
    "row_index": torch.zeros(M).long(),
}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"logit": None}, "logit is needed"),
        ({"bias": torch.ones(GROUPS, N)}, "bias must be None for w of int8"),
        ({"dtype": torch.bfloat16}, "dtype must be float32, got torch.bfloat16"),
        ({"row_index": torch.zeros(M)}, "row_index must be int32, int64"),
        ({"output_bs": -1}, "output_bs must not be negative, got -1"),
        (
            {"shared_input": torch.ones(9, N).bfloat16(), "shared_input_offset": 1},
            "shared_input of 9 rows does not fit after shared_input_offset 1 of 9",
        ),
    ],
)
def test_routings_that_do_not_fit(change, text) -> None:
    name = "npu_grouped_matmul_finalize_routing"
    with pytest.raises(RuntimeError, match=f"{name}: .*{text}"):
        torch_npu.npu_grouped_matmul_finalize_routing(**ROUTED | change)


def test_rows_that_do_not_fit() -> None:
    given = {
        "x": torch.zeros(M, K).half(),
        "quantized_weight": torch.zeros(GROUPS, N, K, dtype=torch.int8),
        "weight_scale": torch.ones(GROUPS, N),
        "group_list": torch.tensor(SIZES),
    }
    for change, text in (
        (
            {"quant_mode": "perchannel"},
            "must be pertoken or pertensor, got 'perchannel'",
        ),
        ({"quant_mode": "pertensor"}, "quant_mode pertensor needs x_scale"),
        ({"bias": torch.ones(N)}, "bias must be None"),
        ({"weight_scale": torch.ones(GROUPS, K)}, "weight_scale must have shape"),
    ):
        with pytest.raises(RuntimeError, match=text):
            torch_npu.npu_quant_grouped_matmul_dequant(**given | change)
