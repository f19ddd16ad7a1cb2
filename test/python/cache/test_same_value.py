"""The rule "the value is what the trace saw" has three forms: `same` defines it,
`_C.same_value` is fast, and expressions over arguments use one of the two. They agree,
and a constant is the same after it was saved and read."""

from __future__ import annotations

import collections
import enum
import marshal
import math
import struct
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch import _C
from anabranch.method_cache import bytecode
from anabranch.method_cache.lookup.argument_check import refusing
from anabranch.method_cache.lookup.same_value import only_itself, same
from anabranch.method_cache.source import Source

Pair = collections.namedtuple("Pair", "left right")


class Kind(enum.Enum):
    A = 1
    B = 2


class Level(enum.IntEnum):
    ONE = 1
    TWO = 2


class Steps(int):
    pass


class Name(str):
    pass


class Meta(type):
    """A type of classes that are all equal."""

    def __eq__(cls, other):
        return True

    def __hash__(cls):
        return 0


class First(metaclass=Meta):
    pass


class Second(metaclass=Meta):
    pass


class Refusing:
    """An object that cannot be compared."""

    def __eq__(self, other):
        raise RuntimeError

    __hash__ = object.__hash__


NAN, OTHER_NAN = float("nan"), struct.unpack("d", b"\1\0\0\0\0\0\xf8\xff")[0]
# Values whose neighbours in a row are equal, or look so, without being the same.
ALIKE: list[Any] = [
    *(False, 0, 0.0, -0.0, 0j, complex(0, -0.0), complex(-0.0, 0), Steps(0), None),
    *(True, 1, 1.0, 1 + 0j, Level.ONE, Steps(1), torch.tensor(1), torch.tensor([1])),
    *(Kind.A, Kind.B, Level.TWO, 2, 2**70, 2**70 + 1, -(2**70), 2.0**70),
    *(NAN, OTHER_NAN, -NAN, complex(NAN, 0), complex(0, NAN), float("inf")),
    *("", "a", b"", b"a", Name("a"), "a\0", "\udc80"),
    *(torch.float32, torch.float64, torch.device("cpu"), torch.device("cpu", 0), "cpu"),
    *(torch.strided, torch.contiguous_format, torch.preserve_format),
    *(int, bool, First, Second, len, pytest, same),
    *([1], [True], {1: 2}, {1}, range(2), range(0, 2, 1), slice(1), Refusing()),
    *(torch.ones(2), torch.ones(1), torch.Size([1, 2]), same.__code__),
]


def copied(value: Any) -> Any:
    """An equal object that is another one, if there can be one."""
    if isinstance(value, tuple):
        items = [copied(item) for item in value]
        return type(value)(*items) if type(value) is Pair else type(value)(items)
    if isinstance(value, frozenset):
        return frozenset(map(copied, value))
    if type(value) in (int, float, str, bytes, complex):
        return marshal.loads(marshal.dumps(value))
    if isinstance(value, torch.device):
        return torch.device(str(value))
    if isinstance(value, torch.Tensor):
        return value.clone()
    return value


def is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


NUMBERS = (
    st.integers()
    | st.floats()
    | st.floats(width=16)
    | st.complex_numbers()
    | st.booleans()
)
LEAVES = st.sampled_from(ALIKE) | NUMBERS | st.text() | st.binary()
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.tuples(inner, inner).map(lambda both: Pair(*both))
        | st.frozensets(inner.filter(is_hashable), max_size=3)
    ),
    max_leaves=6,
)
PAIRS = (
    st.tuples(VALUES, VALUES)
    | VALUES.map(lambda value: (value, value))
    | VALUES.map(lambda value: (value, copied(value)))
)


def over_argument(value: Any, known: Any) -> bool:
    """Whether a method whose argument was `known` in the trace accepts `value`."""

    def method(self, x):
        return True

    constants = [(Source.parse("L['x']", method), known)]
    try:
        return refusing(method, constants, KeyError())(method)(None, value)
    except KeyError:
        return False


@given(PAIRS)
@settings(max_examples=1000, deadline=None)
def test_three_forms_agree(pair: tuple[Any, Any]) -> None:
    value, known = pair
    found = same(value, known)
    assert _C.same_value(value, known) is found
    assert over_argument(value, known) is found
    assert same(known, value) is found
    assert same(value, value)


def type_names(value: Any) -> str:
    """The id of a test. Texts of some values contain addresses."""
    return type(value).__name__


@pytest.mark.parametrize("value", ALIKE, ids=type_names)
def test_three_forms_agree_on_values_that_are_alike(value: Any) -> None:
    for known in ALIKE:
        found = same(value, known)
        pairs = [(value, known), ((value,), (known,))]
        if is_hashable(value) and is_hashable(known):
            pairs.append((frozenset([value]), frozenset([known])))
        for one, other in pairs:
            assert _C.same_value(one, other) is same(one, other), known
            assert over_argument(one, other) is same(one, other), known
        assert same(*pairs[1]) is found
        if only_itself(known):
            assert found is (value is known)


SAME = [
    (NAN, OTHER_NAN),
    ((1, NAN), (1, OTHER_NAN)),
    (complex(NAN, 1), complex(OTHER_NAN, 1)),
    (2**70, int(str(2**70))),
    (torch.device("cpu"), torch.device("cpu")),
    (frozenset(["a", "b"]), frozenset(["b", "a"])),
]
DIFFERENT = [
    (0.0, -0.0),
    (complex(0, 0.0), complex(0, -0.0)),
    (True, 1),
    (1, 1.0),
    (Level.ONE, 1),
    (Steps(1), 1),
    ((1, 2), (1, True)),
    ((0.0,), (-0.0,)),
    ((1,), (1, 1)),
    ((1,), torch.Size([1])),
    (frozenset([1]), frozenset([True])),
    (frozenset([1, 2]), frozenset([1])),
    (First, Second),
    (torch.ones(1), torch.ones(1)),
    (Refusing(), Refusing()),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=type_names)
def test_same(one: Any, other: Any) -> None:
    assert same(one, other)
    assert _C.same_value(one, other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=type_names)
def test_different(one: Any, other: Any) -> None:
    for value, known in ((one, other), (other, one)):
        assert not same(value, known)
        assert not _C.same_value(value, known)


def savable(value: Any) -> bool:
    """Whether `code.bin` can hold the value. NaNs in sets are found by identity."""
    if isinstance(value, tuple | frozenset):
        exact = type(value) in (tuple, frozenset)
        return exact and all(map(savable, value))
    return bytecode.is_plain(value)


def nans_in_sets(value: Any, inside: bool = False) -> bool:
    if isinstance(value, tuple | frozenset):
        inside = inside or isinstance(value, frozenset)
        return any(nans_in_sets(item, inside) for item in value)
    return inside and isinstance(value, float) and math.isnan(value)


@given(VALUES.filter(savable))
@settings(max_examples=500, deadline=None)
def test_a_saved_value_is_the_same(value: Any) -> None:
    read = bytecode.read(marshal.loads(marshal.dumps(bytecode.spelled(value))))
    if not nans_in_sets(value):
        assert same(read, value)
        assert _C.same_value(read, value)
