"""Calls of a replayed method compare the functions and types that its trace used."""

import dataclasses
import enum
import functools
import sys
from typing import Any

import pytest
import torch

import anabranch
from anabranch.packages import cache


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("ANABRANCH_CACHE")
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache, "_warned", set())


class Called(torch.nn.Module):
    """A model whose trace goes through functions of many kinds."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.factors = [2.0, 3.0]
        self.table = {"shift": 1.0}
        self.scaled = scaled_by(2.0)

    def part(self, x, offset=0.5):
        return x + offset

    def method(self, x, last=1):
        y = helper(self.part(self.fc(x)))
        for factor in self.factors:
            y = y * factor
        return self.scaled(y) + self.table["shift"] * last


def scaled_by(scale):
    def scaled(x):
        return x * scale

    return scaled


def helper(x, power=2):
    return x**power


def new_cell(module):
    module.scaled.__closure__[0].cell_contents = 5.0


def new_default(_):
    Called.method.__defaults__ = (3,)


MORE_CHANGES = {
    "item of a list": lambda m: m.factors.__setitem__(1, 4.0),
    "length of a list": lambda m: m.factors.append(4.0),
    "item of a dict": lambda m: m.table.update(shift=2.0),
    "default": lambda m: setattr(helper, "__defaults__", (3,)),
    "default of a method's part": lambda m: setattr(
        m.part.__func__, "__defaults__", (9,)
    ),
    "own default": new_default,
    "what is closed over": new_cell,
    "function of a module": lambda m: setattr(m, "scaled", lambda x: x * 7),
    "global function": lambda m: globals().update(helper=lambda x: x + 3),
    "method of the class": lambda m: setattr(Called, "part", lambda self, x: x - 1),
    "hook": lambda m: m.fc.register_forward_hook(lambda _, __, y: y + 1),
    "hook before": lambda m: m.fc.register_forward_pre_hook(lambda _, x: x[0] + 1),
}


@pytest.mark.parametrize("change", MORE_CHANGES)
def test_what_a_trace_went_through_is_compared(change, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "helper", helper)
    monkeypatch.setattr(helper, "__defaults__", (2,))
    monkeypatch.setattr(Called, "part", Called.part)
    monkeypatch.setattr(Called.part, "__defaults__", (0.5,))
    monkeypatch.setattr(Called.method, "__defaults__", (1,))
    module, x = Called(), torch.ones(2, 4)
    for _ in range(2):
        torch._dynamo.reset()
        read = anabranch.cache_compile(module.method, dynamic=False)
        torch.testing.assert_close(read(x), module.method(x).detach())
    assert anabranch.last_report().get("cache") == "hit"
    read(x)
    MORE_CHANGES[change](module)
    with pytest.warns(UserWarning, match=r"Called.method recompiled"):
        found = read(x)
    torch.testing.assert_close(found, module.method(x).detach())


class Mode(enum.Enum):
    PLAIN = 1
    SHIFTED = 2


@dataclasses.dataclass
class Answer:
    value: torch.Tensor
    dtype: torch.dtype
    device: Any


class Typed(torch.nn.Module):
    """A model whose trace takes dtypes, devices and enumerations for constants."""

    def __init__(self):
        super().__init__()
        self.kind = torch.float32
        self.mode = Mode.PLAIN

    def method(self, x, dtype=torch.float32, mode=Mode.PLAIN):
        y = (x * 2).to(dtype)
        for shifted in (self.mode, mode):
            if shifted is Mode.SHIFTED:
                y = y + 10
        y = y.to(self.kind) if self.kind != torch.float32 else y
        return Answer(y, y.dtype, x.device)


OTHERS = {
    "argument's dtype": lambda _: (torch.float64,),
    "argument of an enumeration": lambda _: (torch.float32, Mode.SHIFTED),
    "dtype": lambda m: setattr(m, "kind", torch.float16) or (),
    "enumeration": lambda m: setattr(m, "mode", Mode.SHIFTED) or (),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("first", [False, True])
def test_constants_of_pytorch_and_enumerations(other, first) -> None:
    x = torch.arange(1.0, 4.0)
    anabranch.cache_compile(Typed().method, dynamic=False)(x)
    torch._dynamo.reset()
    module = Typed()
    read = anabranch.cache_compile(module.method, dynamic=False)
    if not first:
        torch.testing.assert_close(read(x).value, x * 2)
        assert anabranch.last_report().get("cache") == "hit"
    arguments = OTHERS[other](module)
    found, expected = read(x, *arguments), module.method(x, *arguments)
    torch.testing.assert_close(found.value, expected.value)
    assert found.dtype == expected.dtype and found.device == expected.device


def times(factor):
    def decorate(function):
        @functools.wraps(function)
        def call(*args):
            return function(*args) * (factor + function.__code__.co_argcount)

        return call

    return decorate


class Part(torch.nn.Module):
    """A module whose `forward` is a decorator's closure, which holds the function."""

    @times(2)
    def forward(self, x):
        return x + 1


class Decorated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

    def method(self, x):
        return self.part(x)


def test_functions_in_closures(monkeypatch) -> None:
    x, module = torch.arange(3.0), Decorated()
    anabranch.cache_compile(module.method)(x)

    def refuse(*_, **__):
        raise RuntimeError("Dynamo is called")

    monkeypatch.setattr(torch, "compile", refuse)
    read = anabranch.cache_compile(module.method)
    torch.testing.assert_close(read(x), module.method(x))
    # Another function in the closure makes another method.
    monkeypatch.setattr(Part, "forward", times(2)(lambda _, x: x + 5))
    for call in (read, anabranch.cache_compile(Decorated().method)):
        with pytest.raises(RuntimeError, match="Dynamo is called"):
            call(x)


def test_a_hit_has_the_report_of_the_compilation() -> None:
    x = torch.ones(2, 4)
    anabranch.cache_compile(Called().method)(x)
    made = dict(anabranch.last_report())
    torch._dynamo.reset()
    anabranch.cache_compile(Called().method)(x)
    found = dict(anabranch.last_report())
    assert (found.pop("name"), found.pop("cache")) == ("Called.method", "hit")
    assert made.pop("name") != "Called.method"
    assert {"kernels", "dispatches", "phases"} <= set(found)
    assert found == made


class Holder:
    """An object whose tensor is not among the arguments."""

    def __init__(self, size: int) -> None:
        self.value = torch.arange(float(size))


class ReadsHolder(torch.nn.Module):
    def run(self, x, holder):
        return x + holder.value.sum() * holder.value[-1]


def test_tensors_in_objects_may_have_another_size(tmp_path, monkeypatch):
    monkeypatch.delenv("ANABRANCH_CACHE", raising=False)
    x = torch.randn(3)
    for size in (4, 6, 6, 4):
        torch._dynamo.reset()
        model, holder = ReadsHolder().eval(), Holder(size)
        run = anabranch.cache_compile(model.run, cache_dir=str(tmp_path), dynamic=False)
        with torch.no_grad():
            torch.testing.assert_close(run(x, holder), model.run(x, holder))


class Counted(torch.nn.Module):
    def method(self, x):
        return torch.nonzero(x).shape[0]


def test_a_number_of_the_data_is_kept() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        first = anabranch.cache_compile(Counted().method)
        assert first(torch.tensor([0.0, 1.0])) == 1
        compiled = anabranch.counters.compiles
        torch._dynamo.reset()
        again = anabranch.cache_compile(Counted().method)
        assert again(torch.tensor([2.0, 1.0])) == 2
    assert anabranch.counters.compiles == compiled
