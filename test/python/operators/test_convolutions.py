"""Convolutions with frozen weights equal eager, on every instruction set."""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import anabranch

MODELS = int(os.environ.get("ANABRANCH_CONVOLUTIONS", "24"))
KINDS = {
    False: (nn.Conv1d, nn.Conv2d, nn.Conv3d),
    True: (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
}
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
MAXIMA = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
MEANS = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
BETWEEN = (
    "nothing",
    "norm",
    "residual",
    "concatenation",
    "slice",
    "gate",
    "softmax",
    "maxima",
    "means",
    "padding",
)
# A target for each way to multiply pairs of bf16, and for each vector length.
TARGETS = ("portable", "x86-64-v3", "x86-64-v4", "znver4", "sapphirerapids")


def convolution(choose: random.Random, dims: int, channels: int) -> nn.Module:
    """A random layer whose result has at least one point."""
    transposed = choose.random() < 0.15
    window = [choose.choice((1, 1, 2, 3, 3, 3, 5)) for _ in range(dims)]
    stride = [choose.choice((1, 1, 1, 2, 3)) for _ in range(dims)]
    dilation = [choose.choice((1, 1, 2)) for _ in range(dims)]
    # Plain convolutions may have more padding than a window has points.
    reach = [(w - 1) * d + (not transposed) for w, d in zip(window, dilation)]
    padding = [choose.randint(0, points) for points in reach]
    filters = choose.choice((1, 5, 8, 16, 24, 32, 48, 64, 70))
    groups = choose.choice((1, 1, 1, 2, channels))
    if channels % groups:
        groups = 1
    filters = max(filters // groups, 1) * groups
    return KINDS[transposed][dims - 1](
        channels,
        filters,
        window,
        stride,
        padding,
        dilation=dilation,
        groups=groups,
        bias=choose.random() < 0.7,
    )


class Between(nn.Module):
    """Two convolutions with other operators between them."""

    def __init__(self, what: str, channels: int, dims: int) -> None:
        super().__init__()
        self.what = what
        self.norm = NORMS[dims - 1](channels).eval()
        with torch.no_grad():
            self.norm.running_mean.uniform_(-0.5, 0.5)
            self.norm.running_var.uniform_(0.5, 2)
        self.side = KINDS[False][dims - 1](channels, channels, 3, padding=1)
        self.maxima = MAXIMA[dims - 1](3, 1, 1)
        self.means = MEANS[dims - 1](3, 2, 1, count_include_pad=channels % 2 == 0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.what == "norm":
            return torch.relu(self.norm(x))
        if self.what == "residual":
            return torch.relu(self.side(x) + x)
        if self.what == "concatenation":
            return torch.cat([torch.relu(self.side(x)), x], 1)[:, 1:]
        if self.what == "slice":
            return x[:, :, 1:] if x.shape[2] > 1 else x
        if self.what == "gate":
            gate = torch.sigmoid(x.mean(tuple(range(2, x.dim())), keepdim=True))
            return x * gate
        if self.what == "softmax":
            return torch.softmax(x, 1)
        if self.what == "maxima":
            return torch.cat([self.maxima(x), x], 1)
        if self.what == "means":
            return torch.relu(self.means(x)) if min(x.shape[2:]) > 1 else x
        if self.what == "padding":
            return torch.nn.functional.pad(x, (1, 0) * (x.dim() - 2), value=0.5)
        return x


def random_model(seed: int) -> tuple[nn.Module, torch.Tensor]:
    choose = random.Random(seed)
    torch.manual_seed(seed)
    dims = choose.choice((1, 2, 2, 2, 2, 3))
    channels = choose.choice((1, 3, 8, 16, 32, 33, 64, 96))
    sizes = [choose.randint(1, 6 if dims == 3 else 19) for _ in range(dims)]
    x = torch.randn(choose.choice((1, 1, 2, 3)), channels, *sizes)
    layers: list[nn.Module] = []
    result, wanted = x, choose.randint(1, 3)
    while len(layers) < 2 * wanted:
        layer = convolution(choose, dims, result.shape[1])
        between = Between(choose.choice(BETWEEN), layer.out_channels, dims)
        try:
            with torch.no_grad():
                made = between(layer(result))
        except RuntimeError:  # a window is larger than the image
            continue
        if not made.numel():
            continue
        result = made
        layers += [layer, between]
    return nn.Sequential(*layers).eval(), x


class InDtype(nn.Module):
    """A model that computes in a dtype and is called in f32."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self.dtype = model, dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x.to(self.dtype)).float()


def rms(x: torch.Tensor) -> torch.Tensor:
    return x.square().mean().sqrt()


def assert_accurate(
    model: nn.Module, x: torch.Tensor, dtype: torch.dtype, run: Callable
) -> None:
    """Asserts an error against float64 of at most twice eager's, plus some roundings.

    The error is that of all elements together: the largest error of few elements is a
    matter of luck.
    """
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.to(dtype).double())
        eager = InDtype(copy.deepcopy(model).to(dtype), dtype).eval()
        own = rms(eager(x).double() - exact)
        ours = run(eager, x)
    assert ours.shape == exact.shape
    error = rms(ours.double() - exact)
    allowed = 2 * own + 4 * torch.finfo(dtype).eps * rms(exact)
    assert error <= allowed, f"error {error}, eager's {own}"


def frozen(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.reset()
    return anabranch.compile(model, freeze=True, fullgraph=True)(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("seed", range(MODELS))
def test_random_models_are_as_accurate_as_eager(seed: int, dtype: torch.dtype) -> None:
    model, x = random_model(seed)
    assert_accurate(model, x, dtype, frozen)


# Values that a product of transformed squares might round worse than others do.
IMAGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "any sign": lambda x: x,
    "no sign": torch.relu,
    "large mean": lambda x: x + 10,
    "smooth": lambda x: torch.linspace(0, 1, x.shape[-1]) + 0.01 * x,
    "some large": lambda x: x**5,
}


@pytest.mark.parametrize("kind", IMAGES)
@pytest.mark.parametrize("seed", range(6))
def test_windows_of_nine_are_as_accurate_as_eager(seed: int, kind: str) -> None:
    choose = random.Random(seed)
    torch.manual_seed(seed)
    channels, filters = choose.choice((32, 64, 128, 256)), choose.choice((32, 40, 96))
    groups = choose.choice((1, 1, 2, 3))
    channels, filters = channels * groups, filters * groups
    sizes = [choose.randint(4, 21) for _ in range(2)]
    padding = choose.randint(0, 2)
    layer = nn.Conv2d(channels, filters, 3, padding=padding, groups=groups)
    x = IMAGES[kind](torch.randn(choose.choice((1, 2)), channels, *sizes))
    assert_accurate(layer, x, torch.float32, frozen)


LAYERS = {
    "3x3": (nn.Conv2d(64, 48, 3, padding=1), (2, 64, 9, 7)),
    "3x3 odd": (nn.Conv2d(33, 40, 3, padding=(0, 2), bias=False), (1, 33, 9, 12)),
    "3x3 grouped": (nn.Conv2d(96, 144, 3, padding=1, groups=3), (2, 96, 8, 9)),
    "3x3 deep": (nn.Conv2d(256, 32, 3), (1, 256, 6, 6)),
    "strided": (nn.Conv2d(32, 40, 3, stride=2, padding=1), (1, 32, 14, 15)),
    "dilated": (nn.Conv2d(32, 32, 3, stride=2, dilation=3, padding=3), (1, 32, 13, 9)),
    "thin": (nn.Conv2d(3, 64, 7, stride=2, padding=3), (1, 3, 20, 22)),
    "odd": (nn.Conv2d(33, 17, (3, 2), padding=(2, 1)), (1, 33, 8, 8)),
    "pointwise": (nn.Conv2d(64, 32, 1, stride=2), (2, 64, 7, 7)),
    "grouped": (nn.Conv2d(64, 40, 3, padding=(1, 0), groups=4), (2, 64, 6, 8)),
    "grouped strided": (nn.Conv2d(48, 96, 3, 2, 1, groups=3), (2, 48, 13, 12)),
    "grouped few": (nn.Conv2d(12, 32, 5, 2, 2, groups=4, bias=False), (1, 12, 11, 16)),
    "grouped points": (nn.Conv2d(48, 64, 1, 2, groups=2), (1, 48, 9, 7)),
    "grouped volume": (nn.Conv3d(16, 32, 3, padding=1, groups=2), (1, 16, 3, 5, 6)),
    "depthwise": (nn.Conv2d(40, 40, 3, padding=1, groups=40), (1, 40, 6, 6)),
    "depthwise wide": (nn.Conv2d(24, 24, 7, padding=3, groups=24), (2, 24, 5, 11)),
    "depthwise strided": (
        nn.Conv2d(32, 32, 5, (1, 2), 2, dilation=(2, 1), groups=32),
        (1, 32, 9, 18),
    ),
    "depthwise few": (nn.Conv2d(9, 9, 3, padding=1, groups=9), (1, 9, 4, 4)),
    "depthwise line": (nn.Conv1d(33, 33, 9, padding=4, groups=33), (2, 33, 21)),
    "depthwise volume": (nn.Conv3d(16, 16, 3, padding=1, groups=16), (1, 16, 3, 5, 6)),
    "line": (nn.Conv1d(64, 32, 5, stride=2, padding=4, dilation=2), (2, 64, 30)),
    "volume": (nn.Conv3d(32, 16, 3, padding=1), (1, 32, 4, 5, 6)),
    "transposed": (nn.ConvTranspose2d(32, 16, 4, 2, 1), (1, 32, 5, 6)),
}


@pytest.fixture(scope="module")
def packages(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str, nn.Module, torch.Tensor, torch.dtype], Path]:
    """The package of a layer for all targets, which is exported once."""
    made: dict[tuple[str, torch.dtype], Path] = {}

    def package(
        name: str, model: nn.Module, x: torch.Tensor, dtype: torch.dtype
    ) -> Path:
        if (name, dtype) not in made:
            path = tmp_path_factory.mktemp("layer") / "model.anb"
            anabranch.export(model, path, (x,), targets=list(TARGETS))
            made[name, dtype] = path
        return made[name, dtype]

    return package


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("target", TARGETS)
def test_every_instruction_set(
    name: str,
    target: str,
    dtype: torch.dtype,
    packages: Callable[[str, nn.Module, torch.Tensor, torch.dtype], Path],
) -> None:
    layer, shape = LAYERS[name]
    torch.manual_seed(len(name))

    def run(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        file = packages(name, model, x, dtype)
        try:
            package = anabranch.load(file, target=target)
        except (RuntimeError, ValueError) as error:
            pytest.skip(str(error))
        return package(x)

    assert_accurate(layer, torch.randn(shape), dtype, run)


def test_infinity_stays_in_its_windows() -> None:
    """A vector may read points beside its window, but must not multiply them."""
    for layer, shape in LAYERS.values():
        for dtype in (torch.float32, torch.bfloat16):
            model = copy.deepcopy(layer).to(dtype)
            x = torch.randn(shape).to(dtype)
            x.view(-1)[x.numel() // 2] = float("inf")
            with torch.no_grad():
                expected, result = model(x), frozen(model, x)
            assert torch.equal(expected.isfinite(), result.isfinite())


def test_weights_that_change_are_packed_again() -> None:
    model = nn.Conv2d(32, 32, 3, padding=1)
    x = torch.randn(1, 32, 6, 6)
    run = anabranch.compile(model, freeze=True)
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x))
        model.weight.mul_(2)
        torch.testing.assert_close(run(x), model(x))


class InSuperKernel(nn.Module):
    """Two convolutions in a super kernel: a tile waits only for the rows that it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=2, padding=2, dilation=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 5, padding=2, groups=64),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1, groups=64),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(64, 32, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with anabranch.super_kernel("convolutions"):
            return self.layers(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_super_kernels_keep_the_bits(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = InSuperKernel().eval().to(dtype)
    x = torch.randn(2, 32, 33, 30).to(dtype)
    with torch.no_grad():
        wanted = frozen(model.layers, x)
        torch._dynamo.reset()
        run = anabranch.compile(model, freeze=True, fullgraph=True)
        for _ in range(20):
            assert torch.equal(run(x), wanted)


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_images_of_any_size(dims: int, freeze: bool) -> None:
    """Sizes of images are symbols, also in the indices of windows."""
    torch.manual_seed(dims)
    choose = random.Random(dims)
    for _ in range(3):
        layer = convolution(choose, dims, 6).eval()
        torch._dynamo.reset()
        compiled = anabranch.compile(layer, dynamic=True, freeze=freeze)
        for size in (13, 17):
            image = torch.randn(2, 6, *[size] * dims)
            with torch.no_grad():
                torch.testing.assert_close(compiled(image), layer(image))
