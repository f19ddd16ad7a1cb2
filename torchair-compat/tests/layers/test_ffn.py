"""npu_ffn against float64: of experts or not, with floats, integers, and int8 weights."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import torch_npu
from pictures import compiled

ACTS = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "relu": torch.relu,
    "fastgelu": lambda x: x * torch.sigmoid(1.702 * x),
}


def both(function, *arguments):
    yield function(*arguments)
    yield compiled(function)(*arguments)


@pytest.mark.parametrize(
    ("kind", "act"),
    [
        (torch.float16, "silu"),
        (torch.bfloat16, "gelu"),
        (torch.float16, "relu"),
        (torch.bfloat16, "fastgelu"),
    ],
)
def test_floats(kind, act) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8).to(kind)
    first, second = torch.randn(8, 6).to(kind), torch.randn(6, 8).to(kind)
    bias = torch.randn(6), torch.randn(8)

    def feed(x, first, second):
        return torch_npu.npu_ffn(x, first, second, act, bias1=bias[0], bias2=bias[1])

    hidden = ACTS[act](x.double() @ first.double() + bias[0].double())
    wanted = hidden @ second.double() + bias[1].double()
    for found in both(feed, x, first, second):
        torch.testing.assert_close(found.double(), wanted, rtol=2e-2, atol=1e-1)


@pytest.mark.parametrize("ends", [True, False])
def test_experts(ends) -> None:
    torch.manual_seed(0)
    x = torch.randn(7, 8).half()
    first, second = torch.randn(3, 8, 6).half(), torch.randn(3, 6, 8).half()
    name, sizes = "expert_tokens", [2, 0, 5]
    given = {name + "_index": [2, 2, 7]} if ends else {name: sizes}

    def feed(x, first, second):
        return torch_npu.npu_ffn(x, first, second, "relu", **given)

    wanted = torch.cat(
        [
            torch.relu(part.double() @ first[i].double()) @ second[i].double()
            for i, part in enumerate(x.split(sizes))
        ]
    )
    for found in both(feed, x, first, second):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-2, atol=2e-2)


def test_int8_weights_of_floats() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 8).half()
    first = torch.randint(-9, 9, (8, 6), dtype=torch.int8)
    second = torch.randint(-9, 9, (6, 8), dtype=torch.int8)
    scales = torch.rand(6).half() / 9, torch.rand(8).half() / 9
    offsets = torch.randn(6).half(), torch.randn(8).half()

    def feed(x, first, second):
        return torch_npu.npu_ffn(
            *(x, first, second, "gelu"),
            antiquant_scale1=scales[0],
            antiquant_scale2=scales[1],
            antiquant_offset1=offsets[0],
            antiquant_offset2=offsets[1],
        )

    wide = [
        (w.double() + offset.double()) * scale.double()
        for w, offset, scale in zip((first, second), offsets, scales)
    ]
    wanted = functional.gelu(x.double() @ wide[0]) @ wide[1]
    for found in both(feed, x, first, second):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-2, atol=1e-2)


def test_integers() -> None:
    torch.manual_seed(0)
    x, first, second = (
        torch.randint(-9, 9, shape, dtype=torch.int8)
        for shape in ((5, 8), (8, 6), (6, 8))
    )
    scales = torch.rand(6) / 9, torch.rand(8) / 9
    scale, offset = torch.rand(6) * 20, torch.tensor([3.0])

    def feed(x, first, second):
        return torch_npu.npu_ffn(
            *(x, first, second, "relu"),
            scale=scale,
            offset=offset,
            deq_scale1=scales[0],
            deq_scale2=scales[1],
        )

    hidden = torch.relu((x.double() @ first.double()) * scales[0].double()).half()
    rows = (hidden.double() * scale.double() + 3).round().clamp(-128, 127)
    wanted = (rows @ second.double()) * scales[1].double()
    step = second.double().abs().sum(0) * scales[1].double()
    for found in both(feed, x, first, second):
        assert ((found.double() - wanted).abs() <= step + wanted.abs() / 500).all()


GATES = {
    "geglu": functional.gelu,
    "reglu": torch.relu,
    "swiglu": functional.silu,
}


@pytest.mark.parametrize("name", GATES)
def test_gates(name) -> None:
    x, bias = torch.randn(2, 5, 8).half(), torch.randn(12)
    first, second = torch.randn(8, 12).half(), torch.randn(6, 8).half()

    def feed(x, first, second):
        return torch_npu.npu_ffn(x, first, second, name, bias1=bias)

    left, right = (x.double() @ first.double() + bias.double()).chunk(2, -1)
    wanted = (left * GATES[name](right)) @ second.double()
    for found in both(feed, x, first, second):
        torch.testing.assert_close(found.double(), wanted, rtol=2e-2, atol=1e-1)
    for change, text in (
        ({"x": x.bfloat16()}, "x must be float16 for"),
        ({"expert_tokens": [10]}, "must have no experts"),
        ({"weight1": first[:, :9]}, "weight1 must have an even number of columns"),
        ({"weight2": torch.ones(12, 8).half()}, "weight2 must have shape"),
    ):
        given = {"x": x, "weight1": first, "weight2": second, **change}
        with pytest.raises(RuntimeError, match=f"npu_ffn: .*{text}"):
            torch_npu.npu_ffn(activation=name, **given)


def test_wrong() -> None:
    x, first, second = (
        torch.ones(2, 4).half(),
        torch.ones(4, 3).half(),
        torch.ones(3, 4).half(),
    )
    for wrong, text in (
        ({"activation": "tanh"}, "activation must be fastgelu, gelu, relu"),
        ({"expert_tokens": [1, 1]}, "weight1"),
        ({"scale": torch.ones(1)}, "scale must be None"),
        ({"inner_precise": 3}, "inner_precise"),
    ):
        given = {"activation": "relu", **wrong}
        with pytest.raises(RuntimeError, match=text):
            torch_npu.npu_ffn(x, first, second, **given)
