"""Layers and models that people deploy, beside every peer: `run.py workload` measures
all of them. OMP_NUM_THREADS says with how many threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

import products
import streams
import supers
from harness import EXPORTED, Row, Workload, case, steady
from kernel_cases import DTYPES, Experts, layer_norm_gelu, rms_norm_silu
from models import bert, minilm

NAMES = (
    "eager",
    "inductor",
    "inductor max",
    "openvino",
    "onnxruntime",
    "anabranch frozen",
    EXPORTED,
)


def scaled(module: nn.Module, *arguments: Tensor) -> Workload:
    """The module with weights whose products keep the magnitude of operands."""
    for parameter in module.parameters():
        if parameter.ndim > 1:
            depth = parameter[0].numel()
            nn.init.normal_(parameter, std=depth**-0.5)
    return Workload(module.eval(), arguments)


def converted(make: Callable[[], Workload], dtype: torch.dtype) -> Workload:
    """The same workload each time, with floats of `dtype`."""
    torch.manual_seed(0)
    work = make()
    module = cast(nn.Module, work.function).to(dtype)
    arguments = tuple(
        value.to(dtype) if value.is_floating_point() else value
        for value in work.arguments
    )
    return Workload(module, arguments)


# ResNet-18


class Block(nn.Module):
    """Two convolutions and the residual."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                nn.BatchNorm2d(outputs),
            )

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.first_norm(self.first(x)))
        inner = self.second_norm(self.second(inner))
        return functional.relu(inner + self.shortcut(x))


def resnet18() -> Workload:
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    inputs = 64
    for outputs in (64, 128, 256, 512):
        layers.append(Block(inputs, outputs, 1 if outputs == 64 else 2))
        layers.append(Block(outputs, outputs, 1))
        inputs = outputs
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    return scaled(nn.Sequential(*layers, *head), torch.randn(1, 3, 224, 224))


# Language models


class Decoder(nn.Module):
    """A Llama without a cache: the hidden states of a prompt."""

    def __init__(self, layers: int, width: int) -> None:
        from transformers import LlamaConfig, LlamaModel

        super().__init__()
        self.model = LlamaModel(
            LlamaConfig(
                hidden_size=width,
                intermediate_size=8 * width // 3,
                num_hidden_layers=layers,
                num_attention_heads=width // 64,
                num_key_value_heads=width // 64,
                vocab_size=8000,
                use_cache=False,
            )
        )

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(input_ids=tokens).last_hidden_state


def prefill(length: int, layers: int = 12, width: int = 768) -> Workload:
    return scaled(Decoder(layers, width), torch.randint(0, 8000, (1, length)))


class Step(nn.Module):
    """One token of a decoder, whose caches are arguments."""

    def __init__(self, layers: int, width: int, context: int) -> None:
        super().__init__()
        heads, hidden = width // 64, 8 * width // 3
        make = partial(supers.LlamaLayer, width, heads, hidden)
        self.layers = nn.ModuleList(make() for _ in range(layers))
        angle = torch.outer(torch.arange(context), 1e4 ** -(torch.arange(32) / 32))
        angles = torch.cat([angle, angle], -1)
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())
        self.context = context

    def forward(self, x: Tensor, position: Tensor, *caches: Tensor) -> Tensor:
        angles = self.cosines[position], self.sines[position]
        mask = (torch.arange(self.context) <= position)[None, None, None]
        for number, layer in enumerate(self.layers):
            x = layer(x, position, angles, mask, *caches[2 * number : 2 * number + 2])
        return x


def decode(
    batch: int, layers: int = 12, width: int = 768, context: int = 512
) -> Workload:
    shape = (2 * layers, batch, width // 64, context, 64)
    return scaled(
        Step(layers, width, context),
        torch.randn(batch, width),
        torch.tensor([context - 1]),
        *torch.randn(shape).unbind(),
    )


# Mixtures of experts


class Mixture(nn.Module):
    """Every expert reads every row; the gate weighs their results."""

    def __init__(self, count: int, width: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.up = nn.Parameter(torch.empty(count, width, inner))
        self.down = nn.Parameter(torch.empty(count, inner, width))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.gate(x).softmax(-1)
        inner = functional.silu(torch.einsum("nd,edh->enh", x, self.up))
        outer = torch.einsum("enh,ehd->end", inner, self.down)
        return (outer * scores.t()[..., None]).sum(0)


def mixture(rows: int, count: int = 8, width: int = 512, inner: int = 1536) -> Workload:
    return scaled(Mixture(count, width, inner), torch.randn(rows, width))


def one_token(count: int = 8, width: int = 512, inner: int = 1536) -> Workload:
    chosen = torch.tensor([2, 5])
    return scaled(Experts(count, width, inner), torch.randn(width), chosen)


# Layers


class Rows(nn.Module):
    """A function whose parameters are one vector for each of `vectors`."""

    def __init__(self, function: Callable[..., Tensor], width: int, vectors: int):
        super().__init__()
        self.function = function
        self.vectors = nn.ParameterList(torch.ones(width) for _ in range(vectors))

    def forward(self, *arguments: Tensor) -> Tensor:
        return self.function(*arguments, *self.vectors)


def rows(
    function: Callable[..., Tensor], width: int, vectors: int, operands: int = 1
) -> Workload:
    operand = [torch.randn(4096, width) for _ in range(operands)]
    return Workload(Rows(function, width, vectors).eval(), tuple(operand))


def linear(width: int, outputs: int, count: int, gelu: bool) -> Workload:
    layers = [nn.Linear(width, outputs), *([nn.GELU()] if gelu else [])]
    return scaled(nn.Sequential(*layers), torch.randn(count, width))


class GatedProduct(nn.Module):
    """The super kernel page's product and gate, with weights of floats."""

    def __init__(self, depth: int, columns: int) -> None:
        super().__init__()
        self.layer = nn.Linear(depth, columns, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.layer(x).chunk(2, -1)
        return functional.silu(gate) * value


def gated(count: int, depth: int = 7168, columns: int = 4096) -> Workload:
    return scaled(GatedProduct(depth, columns), torch.randn(count, depth))


def inception() -> Workload:
    blocks = streams.Inception(192, 32), streams.Inception(256, 64)
    return scaled(nn.Sequential(*blocks), torch.randn(1, 192, 17, 17))


ALL = ("f32", "bf16")
TOLERANCE = {"f32": 2e-3, "bf16": 0.5, "f16": 5e-2}


def add(
    name: str,
    what: str,
    make: Callable[[], Workload],
    dtypes: tuple[str, ...] = ALL,
) -> None:
    for dtype in dtypes:

        def run(dtype: str = dtype) -> list[Row]:
            factory = partial(converted, make, DTYPES[dtype])
            return steady(factory, NAMES, "ms", 2.0, TOLERANCE[dtype])

        run.__doc__ = f"{what}, {dtype}"
        case(f"workload-{name}-{dtype}", extra=True)(run)


def add_quantised(count: int) -> None:
    def run() -> list[Row]:
        make = partial(products.quantised, count)
        names = (*NAMES[:5], "anabranch", *NAMES[5:])
        return steady(make, names, "ms", 2.0, tolerance=0)

    run.__doc__ = f"int8 product of {count} x 7168 x 4096 and scales"
    case(f"workload-int8-{count}", extra=True)(run)


def register() -> None:
    for count in (1, 8, 128, 512):
        what = f"linear layer of 768 to 3072 and gelu, {count} rows"
        make = partial(linear, 768, 3072, count, True)
        add(f"linear-gelu-{count}", what, make, ("f32", "bf16", "f16"))
    for count in (1, 128, 512):
        what = f"linear layer of 3072 to 768, {count} rows"
        add(f"linear-{count}", what, partial(linear, 3072, 768, count, False))
    for count in (1, 64):
        what = f"linear layer of 7168 to 4096 and gate, {count} rows"
        add(f"gated-{count}", what, partial(gated, count))
    softmax = partial(torch.softmax, dim=-1)
    add("softmax", "softmax of 4096 x 1024", partial(rows, softmax, 1024, 0))
    what = "layer norm and gelu of 4096 x 768"
    add("norm-gelu", what, partial(rows, layer_norm_gelu, 768, 2))
    what = "RMS norm and silu of 4096 x 1024"
    add("rms-silu", what, partial(rows, rms_norm_silu, 1024, 1, 2))
    add("resnet18", "ResNet-18, batch 1", resnet18)
    add("inception", "two Inception blocks", inception)
    for length in (128, 512):
        what = f"Llama of 12 layers, 768 wide, prefill of {length} tokens"
        add(f"prefill-{length}", what, partial(prefill, length))
    for batch in (1, 8):
        what = f"one step of a Llama of 12 layers, context 512, batch {batch}"
        add(f"decode-{batch}", what, partial(decode, batch))
    add("bert", "BERT-base, batch 1, 128 tokens", bert)
    for batch in (1, 8):
        what = f"MiniLM-L6, batch {batch}, 128 tokens"
        add(f"minilm-{batch}", what, partial(minilm, batch))
    add("moe-64", "8 experts of 512 to 1536, 64 rows", partial(mixture, 64))
    add("moe-1", "2 of 8 experts of 512 to 1536, one token", one_token)
    for count in (1, 8, 64, 864):
        add_quantised(count)


register()
