"""What later calls of a method that was read from the cache compare."""

import sys

import pytest
import torch

import anabranch
from anabranch import cache


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("ANABRANCH_CACHE")
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache, "_warned", set())


class Called(torch.nn.Module):
    """Its trace goes through functions of many kinds."""

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
