"""A replayed method sees each change of a value or an argument that its source reads. The
change comes before the first call, or between two calls. The result always equals
eager's."""

from __future__ import annotations

import enum
import math
import shutil

import pytest
import torch

import anabranch

LIMIT = 3
TABLE = {"a": 1}
NAMES = {"x", "y"}


class Kind(enum.IntEnum):
    A = 1
    B = 2


class Steps(int):
    pass


class Factor(torch.nn.Module):
    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


class Model(torch.nn.Module):
    """A model that reads values of every kind that a source may read."""

    of_class = 2

    def __init__(self, folder) -> None:
        super().__init__()
        self.flag, self.none, self.steps, self.scale = True, None, 3, 1.5
        self.name, self.kind, self.derived = "a", Kind.A, Steps(4)
        self.shape, self.items, self.names = (2, 3), [1, 2, 3], {"x", "y"}
        self.table = {"a": 1, "b": 2}
        self.function, self.range = torch.sin, range(3)
        self.act, self.inner = torch.nn.ReLU(), Factor(2)
        self.parts = torch.nn.ModuleList([Factor(1), Factor(2)])
        self.lin = torch.nn.Linear(4, 4)
        self.cached = anabranch.cache_compile(self.method, cache_dir=str(folder))

    @property
    def of_property(self) -> int:
        return self._own if hasattr(self, "_own") else 1

    def method(self, x, count, *more, mode, pair, options, kind, other=None):
        x = self.of_arguments(x, count, more, mode, pair, options)
        x = x * 5 if kind is Kind.A else x
        x = x if other is None else x + other
        x = x + 1 if self.flag else x
        x = x * 2 if self.none is None else x
        for _ in range(self.steps):
            x = x + 1
        x = x * self.scale - int(self.name == "a") + self.derived
        x = x * 3 if self.kind is Kind.A else x
        x = x + self.shape[0] + sum(self.items) + self.table["a"] + len(self.table)
        x = x + 10 * ("x" in self.names) + 20 * ("q" in self.names)
        x = x + 40 if "c" in self.table else x
        x = self.inner(self.act(x - 20))
        x = self.function(x) + (30 if hasattr(self, "extra") else 0)
        for i in self.range:
            x = x + i
        for part in self.parts:
            x = part(x)
        x = x * self.of_class + self.of_property + LIMIT + TABLE["a"]
        return self.lin(x + 1 if "x" in NAMES else x)

    def of_arguments(self, x, count, more, mode, pair, options):
        x = x * count if mode == "times" else x - count
        x = x + (1 if count is True else 2) + len(more)
        x = x + pair[0] / 2 + pair[1] * (50 if isinstance(pair[1], float) else 1)
        for item in options["items"]:
            x = x + item
        return x * options["inner"]["scale"] + len(options)


# The arguments of the traced call, besides the tensor.
COUNT = 2
ARGUMENTS = {
    "mode": "times",
    "pair": (1, 2),
    "options": {"items": [1, 2], "inner": {"scale": 2}},
    "kind": Kind.A,
}

CHANGES = {
    "flag": lambda m, patch: setattr(m, "flag", False),
    "none": lambda m, patch: setattr(m, "none", 1),
    "steps": lambda m, patch: setattr(m, "steps", 5),
    "scale": lambda m, patch: setattr(m, "scale", 2.5),
    "name": lambda m, patch: setattr(m, "name", "b"),
    "enum": lambda m, patch: setattr(m, "kind", Kind.B),
    "derived": lambda m, patch: setattr(m, "derived", Steps(9)),
    "bool for an int": lambda m, patch: setattr(m, "steps", True),
    "tuple": lambda m, patch: setattr(m, "shape", (5, 3)),
    "list grows": lambda m, patch: m.items.append(7),
    "item of a list": lambda m, patch: m.items.__setitem__(0, 9),
    "item of a dict": lambda m, patch: m.table.__setitem__("a", 8),
    "new key": lambda m, patch: m.table.__setitem__("c", 8),
    "lost key": lambda m, patch: m.table.pop("b"),
    "left a set": lambda m, patch: m.names.discard("x"),
    "joined a set": lambda m, patch: m.names.add("q"),
    "new attribute": lambda m, patch: setattr(m, "extra", 1),
    "submodule": lambda m, patch: setattr(m, "act", torch.nn.GELU()),
    "submodule of a class": lambda m, patch: setattr(m, "inner", Factor(7)),
    "value of a submodule": lambda m, patch: setattr(m.inner, "factor", 7),
    "function": lambda m, patch: setattr(m, "function", torch.cos),
    "range": lambda m, patch: setattr(m, "range", range(4)),
    "attribute of the class": lambda m, patch: patch.setattr(Model, "of_class", 5),
    "attribute over the class's": lambda m, patch: setattr(m, "of_class", 6),
    "what a property reads": lambda m, patch: setattr(m, "_own", 4),
    "global": lambda m, patch: patch.setitem(globals(), "LIMIT", 9),
    "global dict": lambda m, patch: patch.setitem(TABLE, "a", 5),
    "global set": lambda m, patch: patch.setitem(globals(), "NAMES", {"y"}),
    "parameters": lambda m, patch: setattr(m, "lin", torch.nn.Linear(4, 4)),
    "module list": lambda m, patch: m.parts.append(Factor(3)),
    "value in a module list": lambda m, patch: setattr(m.parts[1], "factor", 5),
    "hook": lambda m, patch: m.inner.register_forward_hook(lambda s, i, out: out + 1),
    "forward of an object": lambda m, patch: setattr(
        m.inner, "forward", lambda x: x * 9
    ),
    "forward of a class": lambda m, patch: patch.setattr(
        Factor, "forward", lambda self, x: x * 11
    ),
}

# For each change: the arguments that differ from those of the traced call. A tuple has
# the positional ones.
CHANGED_ARGUMENTS = {
    "number": (3,),
    "bool for a number": (True,),
    "float for a number": (2.5,),
    "more arguments": (2, 1),
    "string": {"mode": "minus"},
    "item of a tuple": {"pair": (5, 2)},
    "type of an item of a tuple": {"pair": (1, 2.0)},
    "length of a list": {"options": {"items": [1], "inner": {"scale": 2}}},
    "item of a list in a dict": {"options": {"items": [1, 7], "inner": {"scale": 2}}},
    "item of a dict in a dict": {"options": {"items": [1, 2], "inner": {"scale": 7}}},
    "more keys": {"options": {**ARGUMENTS["options"], "more": 1}},
    "enum in an argument": {"kind": Kind.B},
    "number for an enum": {"kind": 1},
    "tensor for None": {"other": torch.full((4,), 3.0)},
    "number for None": {"other": 3},
}

# Dynamo assumes that these values stay between calls of a compiled function.
UNGUARDED = ("forward of a class", "hook")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of the entry of the traced call."""
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.delenv("ANABRANCH_CACHE", raising=False)
        kept = tmp_path_factory.mktemp("entries")
        Model(kept).eval().cached(torch.ones(2, 4), COUNT, **ARGUMENTS)
        yield kept


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of it. A change that a replay sees removes the entry."""
    return shutil.copytree(saved, tmp_path / "entries")


def check(model, *args, **kwargs) -> bool:
    """Whether the cached method gives the method's own result."""
    x, known = torch.randn(2, 4), ARGUMENTS | kwargs
    wanted = model.method(x, *args, **known)
    return torch.allclose(model.cached(x, *args, **known), wanted, atol=1e-5)


def sees(model, what, patch) -> bool:
    """Whether the cached method sees the change."""
    if what in CHANGES:
        CHANGES[what](model, patch)
        return check(model, COUNT)
    changed = CHANGED_ARGUMENTS[what]
    if isinstance(changed, tuple):
        return check(model, *changed)
    return check(model, COUNT, **changed)


@pytest.mark.parametrize("between", [False, True], ids=["first", "between"])
@pytest.mark.parametrize("what", [*CHANGES, *CHANGED_ARGUMENTS])
@torch.no_grad()
def test_each_change_is_seen(folder, monkeypatch, what, between) -> None:
    monkeypatch.delenv("ANABRANCH_CACHE", raising=False)
    model = Model(folder).eval()
    if between:
        assert check(model, COUNT)
        assert anabranch.last_report()["name"] == "Model.method"
    with monkeypatch.context() as patch:
        seen = sees(model, what, patch)
    if not seen and between and what in UNGUARDED:
        pytest.xfail("Dynamo has no guard on it: torch.compile does not see it either")
    assert seen


class Floats(torch.nn.Module):
    """A model whose floats are constants of the trace, since it is static."""

    def __init__(self, folder, zero, nan) -> None:
        super().__init__()
        self.zero, self.nan = zero, nan
        self.cached = anabranch.cache_compile(
            self.method, cache_dir=str(folder), dynamic=False
        )

    def method(self, x):
        x = x * math.copysign(2.0, self.zero)
        return x + (3 if math.isnan(self.nan) else 4)


@pytest.mark.parametrize("between", [False, True], ids=["first", "between"])
@pytest.mark.parametrize(
    ("zero", "nan", "is_same"),
    [
        (0.0, -math.nan, True),
        (-0.0, math.nan, False),
        (0.0, 1.0, False),
        (False, math.nan, False),
    ],
)
@torch.no_grad()
def test_floats(tmp_path, monkeypatch, between, zero, nan, is_same) -> None:
    """Zeros of two signs are two values, and all NaNs are one."""
    monkeypatch.delenv("ANABRANCH_CACHE", raising=False)
    x = torch.randn(3)
    Floats(tmp_path, 0.0, math.nan).cached(x)
    torch._dynamo.reset()
    model = Floats(tmp_path, 0.0, float("nan"))
    if between:
        torch.testing.assert_close(model.cached(x), model.method(x))
    model.zero, model.nan = zero, nan
    torch.testing.assert_close(model.cached(x), model.method(x))
    # The name in the report of a replay. A compilation has the graph's.
    assert (anabranch.last_report()["name"] == "Floats.method") is is_same
