"""Frozen parameters: they are packed at load, and calls no longer fetch them."""

from __future__ import annotations

import dis

import pytest
import torch
from torch import nn
from torch._dynamo.convert_frame import register_bytecode_hook

import anabranch
from anabranch.shapes import tiers

DTYPES = [torch.float32, torch.bfloat16]


class Tied(nn.Module):
    """A weight that an embedding gathers from and a product multiplies by."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 64)

    def forward(self, tokens):
        return nn.functional.linear(self.embed(tokens), self.embed.weight)


class Twice(nn.Module):
    """A weight that two kinds of products multiply by, and that a sum reads."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(48, 48))

    def forward(self, x):
        return x @ self.weight + nn.functional.linear(x, self.weight) + self.weight


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(33, 100), nn.GELU(), nn.Linear(100, 17))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1)
    )


class Residual(nn.Module):
    """A block of a ResNet: two convolutions beside a third, all normalised."""

    def __init__(self, channels, filters, stride):
        super().__init__()
        wide, narrow = {"padding": 1, "bias": False}, {"stride": stride}
        self.first = nn.Conv2d(channels, filters, 3, **wide, **narrow)
        self.second = nn.Conv2d(filters, filters, 3, groups=2, **wide)
        self.beside = nn.Conv2d(channels, filters, 1, **narrow)
        self.norms = nn.ModuleList(nn.BatchNorm2d(filters) for _ in range(3))

    def forward(self, x):
        y = torch.relu(self.norms[0](self.first(x)))
        y = self.norms[1](self.second(y))
        return torch.relu(y + self.norms[2](self.beside(x)))


def resnet() -> nn.Module:
    """A ResNet block and a linear layer with batch norm."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        Residual(8, 8, 1),
        Residual(8, 16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
        nn.BatchNorm1d(10, affine=False),
    )
    return trained(model)


def decoder() -> nn.Module:
    """Transposed convolutions: filters are the second dimension of their weights."""
    return trained(
        nn.Sequential(
            nn.ConvTranspose2d(6, 8, 2, 2, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 4, 3, padding=1, groups=2),
            nn.BatchNorm2d(4),
        )
    )


def trained(model: nn.Module) -> nn.Module:
    """Gives batch norms statistics like those after training."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            if module.affine:
                nn.init.normal_(module.weight, 1.0, 0.3)
                nn.init.normal_(module.bias)
    return model


CASES = {
    "mlp": (mlp, lambda: torch.randn(5, 33)),
    "one_row": (mlp, lambda: torch.randn(1, 33)),
    "tied": (Tied, lambda: torch.randint(0, 100, (2, 7))),
    "twice": (Twice, lambda: torch.randn(48, 48)),
    "resnet": (resnet, lambda: torch.randn(2, 3, 30, 30)),
    "convolutions": (convolutions, lambda: torch.randn(2, 3, 9, 9)),
    "decoder": (decoder, lambda: torch.randn(2, 6, 9, 9)),
}


def frozen(module: nn.Module, **settings):
    return torch.compile(
        module, backend=anabranch.anabranch, options={"freeze": True}, **settings
    )


def check(actual: torch.Tensor, expected: torch.Tensor) -> None:
    tolerance = 1e-4 if expected.dtype == torch.float32 else 3e-2
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_equals_eager(name, dtype):
    make, example = CASES[name]
    module, x = make().eval().to(dtype), example()
    if x.is_floating_point():
        x = x.to(dtype)
    with torch.no_grad():
        compiled = frozen(module)
        for _ in range(2):
            check(compiled(x), module(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_batch_is_symbolic(dtype):
    module = mlp().eval().to(dtype)
    with torch.no_grad():
        compiled = frozen(module, dynamic=True)
        for rows in (2, 7, 130):
            x = torch.randn(rows, 33).to(dtype)
            check(compiled(x), module(x))


@pytest.mark.parametrize("rows", [1, 8, 20])
@pytest.mark.parametrize("freeze", [False, True])
def test_weights_that_change_are_followed(rows, freeze):
    module, x = nn.Linear(33, 40).eval(), torch.randn(rows, 33)
    with torch.no_grad():
        compiled = torch.compile(
            module, backend=anabranch.anabranch, options={"freeze": freeze}
        )
        check(compiled(x), module(x))
        module.weight.mul_(2)
        check(compiled(x), module(x))


def fetched(compiled, *arguments) -> set[str]:
    """The attributes and items that Dynamo's code reads."""
    codes = []
    handle = register_bytecode_hook(lambda old, new: codes.append(new))
    try:
        compiled(*arguments)
    finally:
        handle.remove()
    return {str(step.argval) for code in codes for step in dis.get_instructions(code)}


@pytest.mark.parametrize("freeze", [False, True])
def test_frozen_weights_are_not_fetched_at_a_call(freeze):
    module, x = mlp().eval(), torch.randn(5, 33)
    with torch.no_grad():
        compiled = torch.compile(
            module, backend=anabranch.anabranch, options={"freeze": freeze}
        )
        assert ("weight" in fetched(compiled, x)) == (not freeze)
        for rows in (5, 7, 5):
            y = torch.randn(rows, 33)
            check(compiled(y), module(y))


def test_modules_of_one_class_have_weights_of_their_own():
    modules, x = [mlp().eval() for _ in range(12)], torch.randn(5, 33)
    before = anabranch.counters.graphs
    with torch.no_grad():
        for module in modules:
            check(frozen(module)(x), module(x))
        assert anabranch.counters.graphs == before + len(modules)
        shared = frozen(lambda module, x: module(x))
        for module in (*modules[:3], *modules[:3]):
            check(shared(module, x), module(x))


def test_a_tensor_in_place_of_a_frozen_one_is_noticed():
    module, x = mlp().eval(), torch.randn(5, 33)
    with torch.no_grad():
        compiled = frozen(module)
        check(compiled(x), module(x))
        module[2].bias = nn.Parameter(torch.randn(17))
        check(compiled(x), module(x))


def test_a_frozen_weight_of_another_dtype_is_noticed():
    module, x = mlp().eval(), torch.randn(5, 33)
    with torch.no_grad():
        compiled = frozen(module)
        check(compiled(x), module(x))
        module.double()
        check(compiled(x.double()), module(x.double()))


def test_shapes_that_come_are_noticed_without_the_frozen_weights():
    module = mlp().eval()
    config = anabranch.Config(freeze=True, shapes="tiered")
    compiled = anabranch.compile(module, config=config, dynamic=True)
    before = anabranch.counters.specialised
    with torch.no_grad():
        for rows in (3, 9, 9, 3):
            x = torch.randn(rows, 33)
            check(compiled(x), module(x))
        assert tiers.worker().finish(60)
        check(compiled(x), module(x))
    assert anabranch.counters.specialised > before


@pytest.mark.parametrize(
    "layout",
    [
        lambda w: w.t().contiguous().t(),
        lambda w: torch.cat([w, w], 1)[:, : w.shape[1]],
        lambda w: torch.stack([w, w], -1)[..., 1],
        lambda w: w[:1].expand_as(w),
        lambda w: torch.cat([w, w])[3 : 3 + w.shape[0]],
    ],
    ids=["transposed", "rows apart", "elements apart", "repeated", "offset"],
)
def test_weights_of_any_layout(layout) -> None:
    model, x = torch.nn.Linear(24, 40).eval(), torch.randn(5, 24)
    weight = layout(model.weight.detach())
    model.weight = torch.nn.Parameter(weight, requires_grad=False)
    assert model.weight.stride() == weight.stride()
    compiled = torch.compile(
        model, backend="anabranch", options={"freeze": True}, dynamic=False
    )
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)


class Scaled(torch.nn.Module):
    """A module with two numbers: one in PyTorch's module, one in the user's."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.factor = 0.5

    def forward(self, x):
        return self.norm(x) * self.factor


@pytest.mark.parametrize("dynamic", [False, True, None])
def test_numbers_of_a_module_are_not_frozen(dynamic) -> None:
    """With dynamic=True, Dynamo passes them as tensors that live for one call."""
    model = Scaled().eval()
    compiled = torch.compile(
        model, backend="anabranch", options={"freeze": True}, dynamic=dynamic
    )
    with torch.no_grad():
        for rows, factor in ((3, 0.5), (5, 0.5), (5, 2.0), (3, -1.0)):
            model.factor = factor
            x = torch.randn(rows, 8)
            torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("options", [{"freeze": True}, {}, {"watch": False}], ids=str)
def test_norms_after_convolutions_of_two_bytes(dtype, options):
    """Sums are scaled before they are rounded, which eager PyTorch does twice."""
    depthwise = nn.Conv2d(16, 16, 3, 2, 1, groups=16)
    model = nn.Sequential(resnet()[:6], depthwise, nn.BatchNorm2d(16), nn.ReLU6())
    model = trained(model).to(dtype).eval()
    x = torch.randn(2, 3, 30, 30).to(dtype)
    with torch.no_grad():
        eager = model(x).double()
        found = anabranch.compile(model, fullgraph=True, **options)(x)
        exact = model.double()(x.double())
    assert found.dtype == dtype
    error = (found.double() - exact).norm() / exact.norm()
    assert error <= 1.1 * (eager - exact).norm() / exact.norm()
