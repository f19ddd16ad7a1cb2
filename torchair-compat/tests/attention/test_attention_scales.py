"""npu_fused_infer_attention_score of int8 equals a model in float64."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled

op = torch_npu.npu_fused_infer_attention_score
B, N, S, T, D = 2, 4, 5, 7, 8


def int8(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def attention(q, k, v, scale):
    scores = q.double() @ k.double().transpose(-1, -2) * scale
    return torch.softmax(scores, -1) @ v.double()


# For each mode of the scale of keys or values: the shape that a user may give, and the
# shape that broadcasts to (batch, heads, rows, elements).
TABLES = [
    (0, (1,), (1, 1, 1, 1)),
    (0, (2 * D,), (1, 2, 1, D)),
    (0, (2, D), (1, 2, 1, D)),
    (0, (1, 2, 1, D), (1, 2, 1, D)),
    (1, (B, T), (B, 1, T, 1)),
    (1, (1, B, T), (B, 1, T, 1)),
    (2, (2,), (1, 2, 1, 1)),
    (3, (B, 2, T), (B, 2, T, 1)),
]


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("mode", "shape", "wide"), TABLES)
def test_keys_and_values_are_dequantised(kind, mode, shape, wide) -> None:
    q = torch.randn(B, N, S, D).to(kind)
    k, v = int8(B, 2, T, D), int8(B, 2, T, D)
    scales = [torch.rand(shape) / 64 for _ in range(2)]
    offsets = [torch.randint(-9, 9, shape).float() for _ in range(2)]
    wanted = attention(
        q,
        *(
            ((x.double() + o.view(wide)) * s.view(wide)).repeat_interleave(2, 1)
            for x, s, o in zip((k, v), scales, offsets)
        ),
        0.3,
    )

    def run(q, k, v, scales, offsets):
        return op(
            q,
            k,
            v,
            num_heads=N,
            num_key_value_heads=2,
            scale=0.3,
            input_layout="BNSD",
            key_antiquant_scale=scales[0],
            key_antiquant_offset=offsets[0],
            key_antiquant_mode=mode,
            value_antiquant_scale=scales[1],
            value_antiquant_offset=offsets[1],
            value_antiquant_mode=mode,
        )[0]

    near = {"rtol": 1e-2, "atol": 1e-2} if kind != torch.float32 else {}
    for function in (run, compiled(run)):
        found = function(q, k, v, scales, offsets)
        assert found.dtype == kind
        torch.testing.assert_close(found.float(), wanted.float(), **near)
    if mode < 2:
        shared = op(
            q,
            k,
            v,
            num_heads=N,
            num_key_value_heads=2,
            scale=0.3,
            input_layout="BNSD",
            antiquant_scale=torch.stack(scales),
            antiquant_offset=torch.stack(offsets),
            antiquant_mode=mode,
        )[0]
        assert torch.equal(shared, run(q, k, v, scales, offsets))


@pytest.mark.parametrize("to_int8", [False, True])
def test_all_of_int8(to_int8) -> None:
    q, k, v = int8(B, N, S, D), int8(B, N, T, D), int8(B, N, T, D)
    first, between, second = 1e-4, 127.0, 1e-2
    scores = q.double() @ k.double().transpose(-1, -2) * first * 0.5
    weights = (torch.softmax(scores, -1) * between).round()
    wanted = weights @ v.double() * second
    more = {"quant_scale2": torch.tensor([3.0]), "quant_offset2": torch.tensor([2.0])}

    def run(q, k, v, *scales):
        return op(
            q,
            k,
            v,
            num_heads=N,
            scale=0.5,
            input_layout="BNSD",
            dequant_scale1=scales[0],
            quant_scale1=scales[1],
            dequant_scale2=scales[2],
            **(more if to_int8 else {}),
        )[0]

    scales = [torch.tensor([x]) for x in (first, between, second)]
    for function in (run, compiled(run)):
        found = function(q, k, v, *scales)
        if to_int8:
            assert found.dtype == torch.int8
            expected = (wanted * 3 + 2).round().clamp(-128, 127)
            assert (found - expected).abs().max() <= 4  # one weight's worth
        else:
            assert found.dtype == torch.float16
            gap = (found.double() - wanted).abs().max()
            assert gap <= 128 * second + 1e-2


@pytest.mark.parametrize("count", [1, N * D])
def test_results_of_int8(count) -> None:
    q, k, v = (torch.randn(B, rows, N * D) for rows in (S, T, T))
    scale, offset = torch.rand(count) * 20, torch.randn(count)
    heads = [x.unflatten(-1, (N, D)).transpose(1, 2) for x in (q, k, v)]
    plain = attention(*heads, 1.0).transpose(1, 2).flatten(2)
    found, _ = op(q, k, v, num_heads=N, quant_scale2=scale, quant_offset2=offset)
    expected = (plain * scale + offset).round().clamp(-128, 127)
    assert found.dtype == torch.int8
    assert (found - expected).abs().max() <= 1


@pytest.mark.parametrize(
    ("kinds", "options", "words"),
    [
        ("fii", {}, "key of int8 needs key_antiquant_scale"),
        ("fii", {"key_antiquant_scale": torch.ones(1)}, "value of int8 needs"),
        ("ffi", {}, "must both have the dtype of query or be int8"),
        ("iii", {}, "query of torch.int8 needs dequant_scale1"),
        ("fff", {"antiquant_scale": torch.ones(2)}, "are for key of int8"),
        ("fff", {"quant_offset2": torch.ones(1)}, "needs quant_scale2"),
        ("fff", {"quant_scale2": torch.ones(3)}, "the quant_scale2 of mode 0 must"),
        ("fii", {"antiquant_scale": torch.ones(2, 3)}, "key scale of mode 0 must have"),
        (
            "fii",
            {"antiquant_scale": torch.ones(2), "antiquant_mode": 7},
            "antiquant_mode must be from 0 to 5, got 7",
        ),
    ],
)
def test_wrong_scales(kinds, options, words) -> None:
    draw = {"f": torch.randn, "i": int8}
    tensors = [draw[kind](B, N, S, D) for kind in kinds]
    with pytest.raises(ValueError, match=words):
        op(*tensors, num_heads=N, input_layout="BNSD", **options)
