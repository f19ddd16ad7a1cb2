"""npu_grouped_matmul equals loops in float64, in graphs and outside."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from agreement import both
from torchair._impl.operators.quantisation.integers import unpack_int4

call = torch_npu.npu_grouped_matmul
SIZES = [3, 0, 4]  # rows of each group; one of the 8 rows is in no group
ENDS = [3, 3, 7]


@pytest.mark.parametrize("split", [0, 1, 2, 3])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_products_of_groups(split, biased, dtype) -> None:
    ends = [2, 2, 7]
    weights = [torch.randn(4, 3, dtype=dtype) for _ in ends]
    bias = [torch.randn(3) for _ in ends] if biased else None
    x = torch.randn(8, 4, dtype=dtype)
    found = both(
        lambda x, *w: torch_npu.npu_grouped_matmul(
            [x], [*w], bias=bias, group_list=ends, split_item=split
        ),
        *(x, *weights),
    )
    parts = []
    for n, (start, end) in enumerate(zip([0, *ends], ends)):
        part = x[start:end].double() @ weights[n].double()
        parts.append(part + bias[n] if bias else part)
    if split in (2, 3):
        assert torch.equal(found[0][7:], torch.zeros(1, 3, dtype=dtype))
        found, parts = [found[0][:7]], [torch.cat(parts)]
    tolerance = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    for one, wanted in zip(found, parts, strict=True):
        torch.testing.assert_close(one.double(), wanted, atol=tolerance, rtol=tolerance)


def test_groups_of_a_tensor_and_of_matrices() -> None:
    x, stacked = torch.randn(8, 4), torch.randn(3, 4, 5)
    lists = torch_npu.npu_grouped_matmul(
        [x], [stacked], group_list=[3, 3, 8], split_item=3
    )
    for kind, sizes in ((0, [3, 3, 8]), (1, [3, 0, 5])):
        found = both(
            lambda x, w, g, kind=kind: torch_npu.npu_grouped_matmul(
                [x], [w], group_list=g, group_list_type=kind, split_item=3
            ),
            *(x, stacked, torch.tensor(sizes)),
        )
        torch.testing.assert_close(found, lists)
    apart = torch_npu.npu_grouped_matmul([x[:3], x[3:]], [stacked[0], stacked[2]])
    torch.testing.assert_close(torch.cat(apart), lists[0])


def int8(*shape):
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def of_rows(function, width):
    """Applies `function` to each group and its rows, in float64. Rows after them are zero."""
    parts = [function(g, slice(e - s, e)) for g, (s, e) in enumerate(zip(SIZES, ENDS))]
    return torch.cat([*parts, torch.zeros(8 - ENDS[-1], width, dtype=torch.float64)])


ACTIVATIONS = {
    0: lambda x: x,
    1: torch.relu,
    2: lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    4: lambda x: x * torch.sigmoid(1.702 * x),
    5: torch.nn.functional.silu,
}


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("act", ACTIVATIONS)
@pytest.mark.parametrize("bias_dtype", [None, torch.int32, torch.float32])
def test_integers_with_scales_of_rows(kind, act, bias_dtype) -> None:
    x, w = int8(8, 16), int8(3, 16, 5)
    scale, token = torch.rand(3, 5) / 999, torch.rand(8)
    bias = None if bias_dtype is None else torch.randn(3, 5).mul(9).to(bias_dtype)
    lists = {0: ENDS, 1: SIZES, 2: [[n, size] for n, size in enumerate(SIZES)]}
    (found,) = both(
        lambda x, w, s, t, g: call(
            [x],
            [w],
            scale=[s],
            per_token_scale=[t],
            bias=None if bias is None else [bias],
            group_list=g,
            group_list_type=kind,
            group_type=0,
            act_type=act,
            split_item=2,
            output_dtype=torch.float16,
        ),
        *(x, w, scale, token, torch.tensor(lists[kind])),
    )

    def product(g, rows):
        total = x[rows].double() @ w[g].double()
        if bias_dtype == torch.int32:
            total = total + bias[g]
        values = total * scale[g] * token[rows, None]
        return ACTIVATIONS[act](
            values + bias[g] if bias_dtype == torch.float32 else values
        )

    assert found.dtype == torch.float16
    wanted = of_rows(product, 5)
    torch.testing.assert_close(found.double(), wanted, atol=2e-3, rtol=2e-3)


def test_groups_in_another_order() -> None:
    """Pairs of (group, size) give the order of the groups' rows."""
    x, w = int8(7, 4), int8(3, 4, 2)
    pairs = torch.tensor([[2, 4], [0, 3], [1, 0]])
    (found,) = both(
        lambda x, w, g: call(
            [x],
            [w],
            group_list=g,
            group_list_type=2,
            group_type=0,
            split_item=3,
            output_dtype=torch.int32,
        ),
        *(x, w, pairs),
    )
    wanted = torch.cat([x[:4].long() @ w[2].long(), x[4:].long() @ w[0].long()])
    assert torch.equal(found.long(), wanted)


@pytest.mark.parametrize("kind", [torch.int8, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("single", [False, True])
def test_integers_with_scales_of_columns(kind, single) -> None:
    x, w = int8(8, 16), [int8(16, 5) for _ in SIZES]
    bias = [torch.randint(-999, 999, (5,), dtype=torch.int32) for _ in SIZES]
    scale = torch.rand(3, 5) / 400
    stored = scale.to(torch.bfloat16) if kind == torch.bfloat16 else scale
    if kind == torch.int8:
        code = [torch_npu.npu_trans_quant_param(s) for s in scale]
        stored = torch.stack(code)
        scale = stored.to(torch.int32).view(
            torch.float32
        )  # the scale uses the upper 19 bits of f32
    wide = stored.double() if kind == torch.bfloat16 else scale.double()
    options = {"bias": bias, "scale": list(stored), "output_dtype": kind}
    found = both(
        lambda x, *w: call(
            [x], [*w], group_list=ENDS, split_item=2 * single, **options
        ),
        *(x, *w),
    )

    def product(g, rows):
        total = x[rows].double() @ w[g].double() + bias[g]
        if kind == torch.int32:
            return total
        values = total * wide[g]
        return values.round().clamp(-128, 127) if kind == torch.int8 else values

    wanted = of_rows(product, 5)
    found = found[0] if single else torch.cat([*found, found[0].new_zeros(1, 5)])
    assert found.dtype == kind
    tolerance = {torch.int8: 1.0, torch.bfloat16: 1.0, torch.int32: 0.0}[kind]
    rtol = 1e-2 if kind == torch.bfloat16 else 0.0
    torch.testing.assert_close(found.double(), wanted, atol=tolerance, rtol=rtol)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("parts", [None, 2])
@pytest.mark.parametrize("shifted", [False, True])
def test_floats_and_weights_of_integers(packed, parts, shifted) -> None:
    x = torch.randn(8, 16, dtype=torch.bfloat16)
    w = torch.randint(-8, 8, (3, 16, 8), dtype=torch.int32)
    stored = torch_npu.npu_convert_weight_to_int4pack(w) if packed else w.to(torch.int8)
    shape = (3, 8) if parts is None else (3, parts, 8)
    scale = torch.rand(shape, dtype=torch.bfloat16)
    offset = torch.randn(shape, dtype=torch.bfloat16) if shifted else None
    bias = torch.randn(3, 8)
    (found,) = both(
        lambda x, w, g: call(
            [x],
            [w],
            bias=[bias],
            antiquant_scale=[scale],
            antiquant_offset=[offset] if shifted else None,
            group_list=g,
            group_type=0,
            split_item=3,
        ),
        *(x, stored, torch.tensor(ENDS)),
    )

    def product(g, rows):
        s, o = (
            t[g].double().reshape(-1, 8).repeat_interleave(16 // (parts or 1), 0)
            for t in (scale, torch.zeros(shape) if offset is None else offset)
        )
        return x[rows].double() @ ((w[g] + o) * s) + bias[g]

    wanted = of_rows(product, 8)
    torch.testing.assert_close(found.double(), wanted, atol=0.1, rtol=2e-2)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
def test_operands_of_int4(parts, transposed) -> None:
    pack = torch_npu.npu_convert_weight_to_int4pack
    x = torch.randint(-8, 8, (8, 16), dtype=torch.int32)
    w = torch.randint(-8, 8, (3, 16, 8), dtype=torch.int32)
    stored = (
        pack(w.transpose(1, 2).contiguous()).transpose(1, 2) if transposed else pack(w)
    )
    scale, token = torch.rand(3, parts, 8), torch.rand(8)
    code = scale.view(torch.int32).long() & 0xFFFFFFFF
    (found,) = both(
        lambda x, w, g: call(
            [x],
            [w],
            scale=[code],
            per_token_scale=[token],
            group_list=g,
            group_type=0,
            split_item=2,
            output_dtype=torch.float16,
        ),
        *(pack(x), stored, torch.tensor(ENDS)),
    )
    assert torch.equal(unpack_int4(pack(x)), x.to(torch.int8))

    def product(g, rows):
        factor = scale[g].double().repeat_interleave(16 // parts, 0)
        return x[rows].double() @ (w[g] * factor) * token[rows, None]

    wanted = of_rows(product, 8)
    torch.testing.assert_close(found.double(), wanted, atol=1e-2, rtol=2e-3)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_groups_of_columns(kind, dtype) -> None:
    x = torch.randn(7, 5, dtype=dtype).t()
    w = torch.randn(7, 6, dtype=dtype)
    listed = torch.tensor(SIZES if kind else ENDS)
    (found,) = both(
        lambda x, w, g: call(
            [x], [w], group_list=g, group_list_type=kind, group_type=2, split_item=3
        ),
        *(x, w, listed),
    )
    starts = zip([0, *ENDS], ENDS)
    wanted = [x[:, s:e].double() @ w[s:e].double() for s, e in starts]
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 5e-2}[dtype]
    assert found.dtype == dtype
    torch.testing.assert_close(
        found.double(), torch.stack(wanted), atol=tolerance, rtol=tolerance
    )
    apart = call([x], [w], group_list=listed, group_list_type=kind, group_type=2)
    torch.testing.assert_close(torch.stack(apart), found)


def test_matrices_of_more_dimensions() -> None:
    x, w = [torch.randn(2, 3, 4), torch.randn(5, 4)], [torch.randn(4, 2)] * 2
    for found, a, b in zip(both(lambda *x: call([*x], w, group_type=-1), *x), x, w):
        torch.testing.assert_close(found, a @ b)


FLOAT, WIDE = torch.randn(4, 3), torch.randn(3, 2)
INT, INT_WIDE = int8(4, 3), int8(3, 2)
PACKED = torch.zeros(4, 1, dtype=torch.int32)
LISTED = torch.tensor([4])


@pytest.mark.parametrize(
    ("x", "w", "options", "text"),
    [
        (FLOAT, [WIDE, WIDE], {}, "need a group_list"),
        (FLOAT, [WIDE, WIDE], {"group_list": [3, 9]}, "does not split 4 rows"),
        (FLOAT, [WIDE, WIDE], {"group_list": [3, 2]}, "group_list must not fall"),
        (FLOAT, [WIDE.t()], {}, "don't fit"),
        (FLOAT, [WIDE], {"split_item": 7}, "no such split_item: 7"),
        (FLOAT, [WIDE], {"group_type": 1}, "group_type must be -1, 0 or 2, got 1"),
        (FLOAT, [WIDE], {"group_list_type": 3}, "no such group_list_type: 3"),
        (FLOAT, [WIDE], {"offset": [WIDE]}, "offset must be None"),
        (FLOAT, [WIDE], {"activation_input": [WIDE]}, "activation_input must be None"),
        (FLOAT, [WIDE], {"scale": [WIDE[0]]}, "no scale"),
        (FLOAT, [WIDE], {"antiquant_scale": [WIDE[0]]}, "no antiquant_scale"),
        (FLOAT, [WIDE], {"bias": [FLOAT[0]]}, r"bias must have shape \(2,\)"),
        (FLOAT, [WIDE], {"bias": [WIDE[0]] * 2}, "bias must have 1 parts"),
        (FLOAT, [WIDE], {"group_list": LISTED}, "needs split_item 2 or 3"),
        (FLOAT, [WIDE], {"group_list": [4], "group_type": -1}, "takes no group_list"),
        (FLOAT, [WIDE], {"act_type": 1}, "act_type 1 needs per_token_scale"),
        (FLOAT, [WIDE], {"act_type": 3}, "act_type must be 0 or .*, got 3"),
        (
            FLOAT,
            [WIDE],
            {"output_dtype": torch.int8},
            "make no output_dtype torch.int8",
        ),
        (FLOAT, [WIDE] * 129, {}, "weight must have 1 to 128 parts, got 129"),
        (FLOAT, [WIDE], {"group_type": 2}, "needs a group_list tensor"),
        (
            FLOAT,
            [WIDE],
            {"group_type": 2, "group_list": torch.tensor([5])},
            "does not split 3 columns",
        ),
        (FLOAT, [INT_WIDE], {}, "need antiquant_scale"),
        (INT, [WIDE], {}, "no product of torch.int8 and torch.float32"),
        (INT, [INT_WIDE], {}, "needs another scale than None"),
        (
            INT,
            [INT_WIDE],
            {"scale": [WIDE[0]]},
            "needs another scale than torch.float32",
        ),
        (INT, [INT_WIDE], {"output_dtype": torch.float32}, "int8 makes no result"),
        (
            INT,
            [INT_WIDE],
            {"output_dtype": torch.float16, "scale": [FLOAT[0]]},
            r"scale must have shape \(2,\)",
        ),
        (
            INT,
            [INT_WIDE],
            {"output_dtype": torch.int32, "per_token_scale": [FLOAT[0]]},
            r"per_token_scale must be float32 \(4,\)",
        ),
        (
            INT,
            [INT_WIDE],
            {"output_dtype": torch.int32, "group_list": [4], "group_list_type": 2},
            "group_list_type 2 needs a group_list tensor",
        ),
        (PACKED, [PACKED], {"output_dtype": torch.float16}, "int4 need scale"),
        (PACKED, [PACKED], {"output_dtype": torch.int8}, "int4 makes float16 or"),
    ],
)
def test_what_does_not_go_together(x, w, options, text) -> None:
    with pytest.raises(RuntimeError, match=f"npu_grouped_matmul: .*{text}"):
        call([x], w, **options)


def test_matrices_that_are_not_those_of_the_list() -> None:
    with pytest.raises(RuntimeError, match=r"groups of \[3, 5\] rows, x of \[4, 4\]"):
        call([FLOAT, FLOAT], [WIDE, WIDE], group_list=[3, 8])
