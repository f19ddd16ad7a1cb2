"""Measures independent branches: on one stream, on the user's streams, on automatic
ones.

Each workload's `forward` takes `marked`: whether its branches are in scopes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn

import anabranch
from harness import EXPORTED, Row, Workload, case, steady
from models import bert, minilm

NAMES = (
    "eager",
    "inductor",
    "openvino",
    "onnxruntime",
    "one stream",
    "marked",
    "auto",
    EXPORTED,
)
UNMARKED = tuple(name for name in NAMES if name != "marked")


def on(tag: str, marked: bool) -> contextlib.AbstractContextManager:
    return anabranch.stream(tag) if marked else contextlib.nullcontext()


def on_its_own(function: Callable, marked: bool) -> Callable:
    """A copy of the function with a code object of its own. Dynamo keeps compiled code
    by code object and tries all of it: contenders with one code object would pay for
    each other's guards."""

    def call(*arguments: Tensor) -> object:
        return function(marked, *arguments)

    call.__code__ = call.__code__.replace()
    return call


def workload(function: Callable, *arguments: Tensor) -> Workload:
    """A workload from a function of `marked` and tensors. Contenders with scopes call
    `marked`."""
    plain = on_its_own(function, False)
    plain.__dict__["marked"] = on_its_own(function, True)
    return Workload(plain, arguments)


def mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for first, second in itertools.pairwise(widths):
        layers += [nn.Linear(first, second), nn.ReLU()]
    return nn.Sequential(*layers)


def branches(count: int, layers: int, width: int, batch: int) -> Workload:
    towers = [mlp(*[width] * (layers + 1)) for _ in range(count)]

    def function(marked: bool, x: Tensor) -> Tensor:
        results = []
        for number, tower in enumerate(towers):
            with on(f"tower{number}", marked and number > 0):
                results.append(tower(x))
        return torch.cat(results, -1)

    return workload(function, torch.randn(batch, width))


def seed_example() -> Workload:
    def function(
        marked: bool, a: Tensor, b: Tensor, c: Tensor, d: Tensor
    ) -> tuple[Tensor, ...]:
        first = a + b
        with on("1", marked):
            if marked:
                anabranch.wait(d, first)
            second = torch.mm(c, d)
        third = torch.mm(c, d)
        with on("2", marked):
            if marked:
                anabranch.wait(d, second)
            fourth = c + d
        return first, second, third, fourth

    return workload(function, *(torch.randn(1000, 1000).half() for _ in range(4)))


def dlrm(batch: int = 16, tables: int = 8, width: int = 32) -> Workload:
    """Eight features looked up and projected, a small MLP for the dense ones."""
    lookups = [nn.EmbeddingBag(5000, width, mode="sum") for _ in range(tables)]
    projections = [mlp(width, 64, width) for _ in range(tables)]
    dense = mlp(13, 128, 64, width)

    def function(marked: bool, features: Tensor, *indices: Tensor) -> Tensor:
        found = [dense(features)]
        for number, (lookup, project, index) in enumerate(
            zip(lookups, projections, indices, strict=True)
        ):
            with on(f"table{number % 2}", marked):
                rows = nn.functional.embedding(index, lookup.weight).sum(1)
                found.append(project(rows))
        vectors = torch.stack(found, 1)
        return torch.bmm(vectors, vectors.transpose(1, 2))

    indices = [torch.randint(0, 5000, (batch, 4)) for _ in range(tables)]
    return workload(function, torch.randn(batch, 13), *indices)


class Unit(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, size: int, pad: int = 0) -> None:
        convolution = nn.Conv2d(inputs, outputs, size, padding=pad, bias=False)
        super().__init__(convolution, nn.BatchNorm2d(outputs), nn.ReLU())


class Inception(nn.Module):
    def __init__(self, inputs: int, pooled: int) -> None:
        super().__init__()
        self.paths = nn.ModuleList(
            [
                Unit(inputs, 64, 1),
                nn.Sequential(Unit(inputs, 48, 1), Unit(48, 64, 5, 2)),
                nn.Sequential(
                    Unit(inputs, 64, 1), Unit(64, 96, 3, 1), Unit(96, 96, 3, 1)
                ),
                nn.Sequential(nn.AvgPool2d(3, 1, 1), Unit(inputs, pooled, 1)),
            ]
        )

    def forward(self, x: Tensor, marked: bool = False) -> Tensor:
        results = []
        for number, path in enumerate(self.paths):
            with on(f"path{number}", marked and number > 0):
                results.append(path(x))
        return torch.cat(results, 1)


def inception() -> Workload:
    first, second = Inception(192, 32).eval(), Inception(256, 64).eval()

    def function(marked: bool, x: Tensor) -> Tensor:
        return second(first(x, marked), marked)

    return workload(function, torch.randn(1, 192, 17, 17))


def ranking(batch: int = 32) -> Workload:
    """A tower for the user and one for the item, and their likeness."""
    towers = [mlp(128, 256, 128, 64), mlp(96, 256, 128, 64)]

    def function(marked: bool, user: Tensor, item: Tensor) -> Tensor:
        left = towers[0](user)
        with on("item", marked):
            right = towers[1](item)
        return nn.functional.cosine_similarity(left, right)

    return workload(function, torch.randn(batch, 128), torch.randn(batch, 96))


def projections(rows: int = 8, width: int = 384) -> Workload:
    """The products of an attention layer over few rows, with attention."""
    query, key, value, out = (nn.Linear(width, width) for _ in range(4))

    def function(marked: bool, x: Tensor) -> Tensor:
        q = query(x)
        with on("key", marked):
            k = key(x)
        with on("value", marked):
            v = value(x)
        heads = [t.view(rows, 6, -1).transpose(0, 1)[None] for t in (q, k, v)]
        mixed = nn.functional.scaled_dot_product_attention(*heads)
        return out(mixed[0].transpose(0, 1).reshape(rows, width))

    return workload(function, torch.randn(rows, width))


def experts(batch: int = 4, count: int = 8, width: int = 128) -> Workload:
    """Every expert reads every row; the gate weighs their results."""
    gate = nn.Linear(width, count)
    networks = [mlp(width, 2 * width, width) for _ in range(count)]

    def function(marked: bool, x: Tensor) -> Tensor:
        weights = gate(x).softmax(-1)
        said = []
        for number, network in enumerate(networks):
            with on(f"expert{number % 2}", marked):
                said.append(network(x))
        return (torch.stack(said, 1) * weights[..., None]).sum(1)

    return workload(function, torch.randn(batch, width))


def compare(
    make: Callable[[], Workload],
    unit: str = "us",
    tolerance: float = 1e-3,
    names: tuple[str, ...] = NAMES,
) -> list[Row]:
    """Compares contenders that have the same weights."""

    def seeded() -> Workload:
        torch.manual_seed(0)
        return make()

    return steady(seeded, names, unit, seconds=3, tolerance=tolerance)


@case("streams-seed", extra=True)
def seed() -> list[Row]:
    """four operators on 1000 x 1000 in f16, two equal products"""
    return compare(seed_example, "ms", tolerance=1.0)


@case("streams-4-towers", extra=True)
def four_towers() -> list[Row]:
    """4 towers of 4 linears, 64 wide, batch 16"""
    return compare(lambda: branches(4, 4, 64, 16))


@case("streams-8-towers", extra=True)
def eight_towers() -> list[Row]:
    """8 towers of 3 linears, 128 wide, batch 8"""
    return compare(lambda: branches(8, 3, 128, 8))


@case("streams-16-towers", extra=True)
def sixteen_towers() -> list[Row]:
    """16 towers of 3 linears, 64 wide, batch 8"""
    return compare(lambda: branches(16, 3, 64, 8))


@case("streams-6-branches", extra=True)
def six_branches() -> list[Row]:
    """6 branches of 4 linears, 256 wide, batch 4"""
    return compare(lambda: branches(6, 4, 256, 4))


@case("streams-dlrm", extra=True)
def dlrm_bottom() -> list[Row]:
    """DLRM's bottom: 8 tables with an MLP each, one dense MLP, batch 16"""
    return compare(dlrm)


@case("streams-inception", extra=True)
def inception_blocks() -> list[Row]:
    """two Inception blocks, 192 x 17 x 17"""
    return compare(inception)


@case("streams-ranking", extra=True)
def two_towers() -> list[Row]:
    """two-tower ranking model, batch 32"""
    return compare(ranking)


@case("streams-qkv", extra=True)
def attention_products() -> list[Row]:
    """one attention layer, 384 wide, 8 rows"""
    return compare(projections)


@case("streams-experts", extra=True)
def mixture() -> list[Row]:
    """8 experts of 2 linears, 128 wide, batch 4"""
    return compare(experts)


@case("streams-minilm", extra=True)
def auto_minilm() -> list[Row]:
    """MiniLM-L6, batch 1, 128 tokens: auto must find nothing to lose"""
    return compare(minilm, "ms", names=UNMARKED)


@case("streams-bert-base", extra=True)
def auto_bert() -> list[Row]:
    """BERT-base, batch 1, 128 tokens: auto must find nothing to lose"""
    return compare(bert, "ms", names=UNMARKED)
