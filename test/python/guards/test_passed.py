"""One guard stands for those whose values CPython counts the changes of: a model is
compiled again exactly where Dynamo's own guards have it compiled again."""

from __future__ import annotations

import gc
import random
import types
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import nn

import anabranch
from anabranch import _C
from anabranch.guards import passed

SCALE = 2.0
OTHER = 0


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def asked(monkeypatch) -> list[bool]:
    """What the guards themselves said, each time they were asked."""
    answers: list[bool] = []
    call = passed._Asked.__call__

    def noting(self, *arguments):
        answers.append(call(self, *arguments))
        return answers[-1]

    monkeypatch.setattr(passed._Asked, "__call__", noting)
    return answers


def shift(x):
    return x + 1


class Settings:
    mode = "relu"

    def __init__(self) -> None:
        self.power = 1


class Layer(nn.Module):
    factor = 1

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.settings = Settings()
        self.gain: float | int = 1.5
        self.sizes = (1, 2)
        self.table = {"bias": 0.5}
        self.names = ["a"]

    def forward(self, x):
        x = self.norm(self.linear(x)) * self.gain * self.factor * SCALE
        if self.settings.mode == "relu":
            x = torch.relu(x)
        if hasattr(self, "extra"):
            x = x + self.extra
        if len(self.names) > 1:
            x = x - 3
        x = shift(x) * self.settings.power + sum(self.sizes)
        return x + self.table.get("bias", 0.0)


class Model(nn.Module):
    def __init__(self, count: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(count)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def some(model: Model) -> Layer:
    return random.choice(list(model.layers))


def set_global(model: Model) -> None:
    global SCALE
    SCALE = random.choice((2.0, 3.0))


def set_class(model: Model) -> None:
    Layer.factor = random.choice((1, 2))


def set_code(model: Model) -> None:
    other = random.choice((lambda x: x + 1, lambda x: x + 2))
    shift.__code__ = other.__code__


def set_forward(model: Model) -> None:
    def forward(self, x):
        return nn.functional.linear(x, self.weight, self.bias) * 2

    linear = some(model).linear
    if "forward" in linear.__dict__:
        del linear.forward
    else:
        linear.forward = types.MethodType(forward, linear)


def drop_extra(model: Model) -> None:
    some(model).__dict__.pop("extra", None)


def rebind_dict(model: Model) -> None:
    layer = some(model)
    layer.__dict__ = {**layer.__dict__, "gain": random.choice((1.5, 2))}


def set_requires_grad(model: Model) -> None:
    weight = some(model).linear.weight
    weight.requires_grad_(not weight.requires_grad)


CHANGES: dict[str, Callable[[Model], object]] = {
    "nothing": lambda m: None,
    "gain": lambda m: setattr(some(m), "gain", random.choice((0.5, 1.5, 2, 3))),
    "sizes": lambda m: setattr(some(m), "sizes", random.choice(((1, 2), (2, 1), (3,)))),
    "unread": lambda m: setattr(some(m), "unread", random.random()),
    "table": lambda m: some(m).table.update(bias=random.choice((0.5, 1.0))),
    "key": lambda m: some(m).table.pop("bias", None),
    "list": lambda m: some(m).names.append("b"),
    "mode": lambda m: setattr(some(m).settings, "mode", random.choice(("relu", "no"))),
    "power": lambda m: setattr(some(m).settings, "power", random.choice((1, 2))),
    "extra": lambda m: setattr(some(m), "extra", random.choice((1.0, 2.0))),
    "no extra": drop_extra,
    "layer": lambda m: m.layers.__setitem__(0, Layer().eval()),
    "linear": lambda m: setattr(some(m), "linear", nn.Linear(4, 4)),
    "weight": lambda m: setattr(
        some(m).linear, "weight", nn.Parameter(torch.randn(4, 4))
    ),
    "no bias": lambda m: setattr(some(m).linear, "bias", None),
    "data": lambda m: setattr(some(m).norm.running_mean, "data", torch.randn(4)),
    "write": lambda m: some(m).linear.weight.data.copy_(torch.randn(4, 4)),
    "training": lambda m: some(m).norm.train(random.random() < 0.5),
    "requires grad": set_requires_grad,
    "global": set_global,
    "class": set_class,
    "code": set_code,
    "forward": set_forward,
    "dict": rebind_dict,
}


def counted(model: nn.Module) -> tuple[Callable, list[None]]:
    """The model compiled by Dynamo with its own guards alone, and its compilations."""
    graphs: list[None] = []

    def backend(module, inputs):
        graphs.append(None)
        return module.forward

    return torch.compile(model, backend=backend, dynamic=False), graphs


@pytest.mark.parametrize("seed", range(2))
@torch._dynamo.config.patch(recompile_limit=99, accumulated_recompile_limit=99)
def test_random_changes_compile_again_where_dynamo_does(seed):
    before = torch._dynamo.utils.counters["stats"]
    random.seed(seed)
    names = random.choices(list(CHANGES), k=20)
    code, scale = shift.__code__, SCALE

    def run(compile_model):
        random.seed(seed)
        torch.manual_seed(seed)
        made = Model().eval()
        called, count = compile_model(made)
        counts, results = [], []
        for name in names:
            CHANGES[name](made)
            x = torch.randn(3, 4)
            with torch.no_grad():
                results.append((called(x), made(x)))
            counts.append(count())
        shift.__code__, Layer.factor = code, 1
        globals()["SCALE"] = scale
        torch._dynamo.reset()
        return counts, results

    def ours(made):
        start = before["unique_graphs"]
        compiled = anabranch.compile(made, dynamic=False)
        return compiled, lambda: before["unique_graphs"] - start

    def reference(made):
        compiled, graphs = counted(made)
        return compiled, lambda: len(graphs)

    expected, _ = run(reference)
    counts, results = run(ours)
    for name, (got, want) in zip(names, results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-3, msg=name)
    assert list(zip(names, counts)) == list(zip(names, expected))


def test_guards_are_not_asked_while_nothing_changes(asked):
    global OTHER
    model = Model().eval()
    compiled = anabranch.compile(model)
    x = torch.randn(3, 4)
    with torch.no_grad():
        compiled(x)
        asked.clear()
        for number in range(20):
            OTHER = number  # a global that the model does not read
            model.layers[0].unread = number
            compiled(x)
    assert asked == []


def test_models_of_one_class_are_told_apart(asked):
    models = [Layer().eval() for _ in range(5)]
    calls = [anabranch.compile(model) for model in models]
    x = torch.randn(3, 4)
    with torch.no_grad():
        for turn in range(4):
            for model, call in zip(models, calls, strict=True):
                torch.testing.assert_close(call(x), model(x))
            if turn == 1:
                asked.clear()
    assert asked == []


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(6)])
        for layer in self.layers:
            layer.compile(backend="anabranch")

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_layers_that_share_one_program_are_remembered_apart(asked):
    model = Shared().eval()
    x = torch.randn(3, 4)
    with torch.no_grad():
        for turn in range(4):
            model(x)
            if turn == 1:
                asked.clear()
    assert asked == []


def test_walks_are_few_where_a_model_changes_at_each_call(monkeypatch):
    walks = []
    walk = passed._Asked.walk
    monkeypatch.setattr(passed._Asked, "walk", lambda *a: (walks.append(1), walk(*a)))
    model = Model(1).eval()
    compiled = anabranch.compile(model)
    x = torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(3 * passed.WALKS):
            model.layers[0].norm = model.layers[0].norm
            model.layers[0].__dict__ = dict(model.layers[0].__dict__)
            torch.testing.assert_close(compiled(x), model(x))
    assert len(walks) <= passed.WALKS + 2


@torch._dynamo.config.patch(error_on_recompile=True)
def test_the_reason_of_a_compilation_is_the_guard_that_failed():
    model = Model(1).eval()
    compiled = anabranch.compile(model)
    x = torch.randn(3, 4)
    with torch.no_grad():
        compiled(x)
        model.layers[0].settings.power = 3
        with pytest.raises(torch._dynamo.exc.RecompileError, match="settings.power"):
            compiled(x)


def test_a_compiled_model_can_be_freed():
    model = Model(1).eval()
    compiled = anabranch.compile(model)
    with torch.no_grad():
        compiled(torch.randn(3, 4))
    reference = weakref.ref(model)
    del model, compiled
    gc.collect()
    assert reference() is None


def test_a_freed_layer_is_not_read(asked):
    model = Model(2).eval()
    compiled = anabranch.compile(model)
    x = torch.randn(3, 4)
    with torch.no_grad():
        compiled(x)
        for _ in range(50):
            model.layers[1] = Layer().eval()
            gc.collect()
            torch.testing.assert_close(compiled(x), model(x))


def test_where_changes_are_not_counted_dynamo_keeps_its_guards(asked, monkeypatch):
    monkeypatch.setattr(_C.GuardedState, "is_possible", lambda: False)
    model = Model(1).eval()
    compiled = anabranch.compile(model)
    x = torch.randn(3, 4)
    with torch.no_grad():
        for gain in (1.5, 2.0, 1.5):
            model.layers[0].gain = gain
            torch.testing.assert_close(compiled(x), model(x))
    assert asked == []


def test_frozen_weights_that_change_are_followed():
    model = Model(2).eval()
    compiled = anabranch.compile(model, freeze=True)
    x = torch.randn(3, 4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        model.layers[0].linear.weight.mul_(2)
        torch.testing.assert_close(compiled(x), model(x))
        model.layers[1].linear = nn.Linear(4, 4)
        torch.testing.assert_close(compiled(x), model(x))
