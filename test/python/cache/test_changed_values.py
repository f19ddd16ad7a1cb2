"""A replayed method sees each change of a value that its source reads. The change comes
before the first call, or between two calls. The result always equals eager's."""

from __future__ import annotations

import enum

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

    def method(self, x):
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


CHANGES = {
    "flag": lambda m, patch: setattr(m, "flag", False),
    "none": lambda m, patch: setattr(m, "none", 1),
    "steps": lambda m, patch: setattr(m, "steps", 5),
    "scale": lambda m, patch: setattr(m, "scale", 2.5),
    "name": lambda m, patch: setattr(m, "name", "b"),
    "enum": lambda m, patch: setattr(m, "kind", Kind.B),
    "derived": lambda m, patch: setattr(m, "derived", Steps(9)),
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

# Dynamo assumes that these values stay between calls of a compiled function.
UNGUARDED = ("forward of a class", "hook")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.delenv("ANABRANCH_CACHE", raising=False)
        kept = tmp_path_factory.mktemp("entries")
        Model(kept).eval().cached(torch.ones(2, 4))
        yield kept


def sees(call, model, what, patch, between: bool) -> bool:
    """Whether `call` gives the method's own result after the change."""
    x = torch.randn(2, 4)
    if between:
        torch.testing.assert_close(call(x), model.method(x))
    CHANGES[what](model, patch)
    return torch.allclose(call(x), model.method(x), atol=1e-5)


@pytest.mark.parametrize("between", [False, True], ids=["first", "between"])
@pytest.mark.parametrize("what", CHANGES)
@torch.no_grad()
def test_each_change_is_seen(folder, monkeypatch, what, between) -> None:
    monkeypatch.delenv("ANABRANCH_CACHE", raising=False)
    model = Model(folder).eval()
    with monkeypatch.context() as patch:
        seen = sees(model.cached, model, what, patch, between)
    if not seen and between and what in UNGUARDED:
        pytest.xfail("Dynamo has no guard on it: torch.compile does not see it either")
    assert seen
