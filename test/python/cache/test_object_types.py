"""Objects of other classes than the trace saw: a replayed method's answer is eager's,
whichever attributes the classes have in common and wherever the object is."""

from __future__ import annotations

import collections
import itertools
import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import anabranch

THREE = torch.full((4,), 3.0)
# What a class computes. Only attributes tell the objects apart, and some read the same.
WAYS = (
    lambda self, x: x * self.scale,
    lambda self, x: x + self.scale,
    lambda self, x: x * self.shift,
    lambda self, x: x * self.scale + self.shift,
    lambda self, x: x - self.scale - self.scale,
)


def random_class(draw: random.Random, number: int, way: Callable[..., Any]) -> type:
    """A class that computes so. Its objects have what it reads and other attributes;
    each is a tensor or a number."""
    fields = [*way.__code__.co_names, *draw.sample(["shift", "power"], 1)]
    are_tensors = {name: draw.random() < 0.7 for name in fields}

    def fill(self) -> None:
        for name, is_tensor in are_tensors.items():
            setattr(self, name, torch.full((4,), 2.0) if is_tensor else 3)

    return type(f"Kind{number}", (), {"__init__": fill, "apply": way})


class Applying(torch.nn.Module):
    """Applies an object that is an argument, in an argument, or its own."""

    def of_argument(self, x, given):
        return given.apply(x) + 1

    def of_list(self, x, given):
        return given[0].apply(x) + 1

    def of_dict(self, x, given):
        return given["a"].apply(x) + 1

    def of_keyword(self, x, *, given=None):
        return x if given is None else given.apply(x) + 1

    def of_module(self, x, given):
        return self.given.apply(x) + 1

    def of_part(self, x, given):
        return self.parts[0].given.apply(x) + 1


def pass_to(name: str, module: Any, kind: type) -> tuple[Sequence[Any], dict[str, Any]]:
    """Puts an object of the class where the method reads it. Returns the arguments."""
    given, x = kind(), torch.arange(4.0)
    module.given, module.parts = given, torch.nn.ModuleList([torch.nn.Module()])
    module.parts[0].given = given
    if name == "of_keyword":
        return (x,), {"given": given}
    held = {"of_list": [given], "of_dict": {"a": given}}
    return (x, held.get(name, given)), {}


PLACES = [name for name in vars(Applying) if name.startswith("of_")]


@pytest.mark.parametrize("between", [False, True], ids=["first", "between"])
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("seed", range(2))
def test_other_classes_compute_what_eager_does(
    replays, tmp_path, name, seed, between
) -> None:
    draw = random.Random(seed)
    ways = draw.sample(WAYS, 2)
    traced, other = (random_class(draw, n, way) for n, way in enumerate(ways))
    calls = replays(Applying, name, tmp_path, traced, other, between)
    for module, call, kind in calls:
        args, kwargs = pass_to(name, module, kind)
        wanted = getattr(module, name)(*args, **kwargs)
        torch.testing.assert_close(call(*args, **kwargs), wanted)


class Contained(torch.nn.Module):
    def method(self, x, given):
        if isinstance(given, list):
            return x + given[0]
        if isinstance(given, collections.OrderedDict):
            return x - given["a"]
        return x * (given["a"] if isinstance(given, dict) else given[0])


Pair = collections.namedtuple("Pair", "a")
CONTAINERS = {
    "list": [THREE],
    "tuple": (THREE,),
    "named": Pair(THREE),
    "dict": {"a": THREE},
    "ordered": collections.OrderedDict(a=THREE),
}


@pytest.mark.parametrize("between", [False, True], ids=["first", "between"])
@pytest.mark.parametrize("traced", CONTAINERS)
def test_other_containers_compute_what_eager_does(
    replays, tmp_path, traced, between
) -> None:
    x = torch.arange(4.0)
    for other in CONTAINERS:
        calls = replays(Contained, "method", tmp_path, traced, other, between)
        for module, call, kind in calls:
            given = CONTAINERS[kind]
            torch.testing.assert_close(call(x, given), module.method(x, given))


class Branching(torch.nn.Module):
    """Methods that do something else for another kind of tensor."""

    def exact(self, x, given):
        return x + given if type(given) is torch.Tensor else x * given

    def parameter(self, x, given):
        return x + given if isinstance(given, torch.nn.Parameter) else x * given

    def learned(self, x, given):
        return x + given if given.requires_grad else x * given

    def tensor(self, x, given):
        return x + given if isinstance(given, torch.Tensor) else x * given

    def optional(self, x, given):
        return x + given if given is not None else x * 5


class Derived(torch.Tensor):
    pass


VALUES = {
    "exact": [THREE, THREE.as_subclass(Derived), torch.nn.Parameter(THREE)],
    "parameter": [torch.nn.Parameter(THREE), THREE],
    "learned": [THREE.clone().requires_grad_(), THREE],
    "tensor": [THREE, 3, 2.0, True],
    "optional": [THREE, None],
}


@pytest.mark.parametrize("between", [False, True], ids=["first", "between"])
@pytest.mark.parametrize("name", VALUES)
def test_other_tensors_compute_what_eager_does(
    replays, tmp_path, name, between
) -> None:
    x = torch.arange(4.0)
    pairs = itertools.permutations(VALUES[name], 2)
    for number, (traced, other) in enumerate(pairs):
        folder = tmp_path / str(number)
        calls = replays(Branching, name, folder, traced, other, between)
        for module, call, value in calls:
            with torch.no_grad():
                found, wanted = call(x, value), getattr(module, name)(x, value)
            torch.testing.assert_close(found, wanted)


class Hiding(torch.nn.Module):
    """A property hides an attribute of the same name that the object has."""

    def __init__(self, hidden: int, shown: int) -> None:
        super().__init__()
        self.__dict__["factor"] = hidden
        self.shown = shown

    @property
    def factor(self) -> int:
        return self.shown

    @factor.setter
    def factor(self, value: int) -> None:
        self.shown = value

    def method(self, x):
        return x * self.factor


class Computing(Hiding):
    """Computes what its attributes are."""

    def __getattribute__(self, name):
        if name == "factor":
            return super().__getattribute__("shown")
        return super().__getattribute__(name)


@pytest.mark.parametrize("between", [False, True], ids=["first", "between"])
@pytest.mark.parametrize("kind", [Hiding, Computing])
@pytest.mark.usefixtures("cached")
def test_code_hides_an_attribute(tmp_path, kind, between) -> None:
    x = torch.arange(4.0)
    for shown in (2, 3):
        torch._dynamo.reset()
        module = kind(2, 2 if between else shown)
        call = anabranch.cache_compile(module.method, cache_dir=str(tmp_path))
        torch.testing.assert_close(call(x), module.method(x))
    module.shown = 5
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Skip cache as")
        torch.testing.assert_close(call(x), module.method(x))


class Missing:
    apply = WAYS[0]


@pytest.mark.usefixtures("cached")
def test_an_attribute_that_is_missing_is_an_error(tmp_path) -> None:
    kind = random_class(random.Random(0), 1, WAYS[0])
    for _ in range(2):
        torch._dynamo.reset()
        read = anabranch.cache_compile(Applying().of_argument, cache_dir=str(tmp_path))
        read(torch.rand(4), kind())
    with pytest.raises(Exception, match="scale"):
        read(torch.rand(4), Missing())
