"""Converters for operators that write to their inputs, or that return nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import torchair
from own_operators import define
from pictures import compiled
from torchair import ge
from torchair._impl.ge.automatic import automatic_converter


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("writing", "DEF") as made:
        yield made


def agree(function: Callable, eager: Callable, *arguments: torch.Tensor) -> None:
    """Asserts that results, and arguments after the call, equal those of eager."""
    copies = [t.clone() for t in arguments]
    found = compiled(function)(*arguments)
    torch.testing.assert_close(found, eager(*copies))
    torch.testing.assert_close([*arguments], copies)


def accumulate(library: torch.library.Library) -> Any:
    """An operator that adds scale * x to total in place, and returns 2 * x."""
    operator = define(
        library,
        "accumulate(Tensor(a!) total, Tensor x, *, float scale=1.0) -> Tensor",
        lambda total, x, *, scale=1.0: torch.empty_like(x),
    )

    @torchair.register_fx_node_ge_converter(operator.default)
    def convert(total, x, *, scale=1.0, meta_outputs=None):
        assert meta_outputs.size == [3, 4] or meta_outputs.size == [3]
        ge.custom_op("AssignAdd", total, ge.custom_op("Muls", x, scale))
        return ge.custom_op("Muls", x, 2.0)

    return operator


def test_an_input_and_a_value_are_written_to(library) -> None:
    operator = accumulate(library)

    def function(total, x):
        between = x * 3
        first = operator(between, x, scale=0.5)
        return first + between + operator(total, x), between * 2

    def eager(total, x):
        between = x * 3.5
        total += x
        return x * 2 + between + x * 2, between * 2

    agree(function, eager, torch.randn(3, 4), torch.randn(3, 4))


def test_a_view_is_written_to(library) -> None:
    operator = accumulate(library)

    def function(total, x):
        operator(total[1:4], x)
        operator(total.t()[0, ::2], x[:, 0])
        return total * 2

    def eager(total, x):
        total[1:4] += x
        total[::2, 0] += x[:, 0]
        return total * 2

    agree(function, eager, torch.randn(6, 4), torch.randn(3, 4))


def test_an_operator_that_returns_nothing(library) -> None:
    operator = define(
        library,
        "put(Tensor(a!) cache, Tensor(b!) places, Tensor rows) -> ()",
        lambda cache, places, rows: None,
    )

    @torchair.register_fx_node_ge_converter(operator.default)
    def convert(cache, places, rows):
        ge.custom_op("ScatterUpdate", cache, places, rows)
        ge.custom_op("AssignAdd", places, ge.Const(1, ge.DataType.DT_INT64))
        # Later nodes read the written value.
        ge.custom_op(
            "ScatterNdUpdate", cache, ge.Const([[0]]), ge.custom_op("Neg", rows)
        )

    def function(cache, places, rows):
        operator(cache, places, rows)
        return cache.sum(), places * 1

    def eager(cache, places, rows):
        cache[places] = rows
        places += 1
        cache[0] = -rows[0]
        return cache.sum(), places * 1

    agree(function, eager, torch.randn(5, 2), torch.tensor([3]), torch.randn(1, 2))


@pytest.mark.checklist("T132")
def test_an_operator_that_writes_has_the_converter_of_its_name(library) -> None:
    operator = define(
        library,
        "assign_sub(Tensor(a!) ref, Tensor value) -> ()",
        lambda ref, value: None,
    )

    def function(x, y):
        operator(x, y)
        return x + 1

    def eager(x, y):
        x -= y
        return x + 1

    agree(function, eager, torch.randn(3), torch.randn(3))
    other = define(library, "relu(Tensor(a!) x) -> Tensor", torch.empty_like)
    text = r"it writes to \['x'\], Relu to none"
    with pytest.raises(RuntimeError, match=text):
        automatic_converter(other.default)


def test_a_converter_that_writes_nothing_is_an_error(library) -> None:
    operator = define(
        library,
        "grow(Tensor(a!) x, Tensor y) -> Tensor",
        lambda x, y: torch.empty_like(y),
    )
    torchair.register_fx_node_ge_converter(operator.default)(lambda x, y: y)
    text = "writing.grow.default writes to x, and no IR node of its converter does"
    with pytest.raises(RuntimeError, match=text) as error:
        compiled(lambda x, y: operator(x, y))(torch.randn(3), torch.randn(3))
    assert "test_writing_converters.py" in str(error.value)


def test_two_views_of_one_tensor_are_an_error(library) -> None:
    operator = define(
        library, "swap(Tensor(a!) x, Tensor(b!) y) -> ()", lambda x, y: None
    )

    @torchair.register_fx_node_ge_converter(operator.default)
    def convert(x, y):
        kept = ge.Clone(x)
        ge.custom_op("Assign", x, y)
        ge.custom_op("Assign", y, kept)

    def function(x, y):
        operator(x, y)
        return x - y

    def eager(x, y):
        kept = x.clone()
        x.copy_(y)
        y.copy_(kept)
        return x - y

    agree(function, eager, torch.randn(3), torch.randn(3))
    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match="x, y are views of one tensor"):
        compiled(lambda x: operator(x[0], x[1]) or x * 2)(torch.randn(2, 3))


def test_what_is_written_has_the_rank_of_the_tensor(library) -> None:
    operator = define(library, "fill(Tensor(a!) x, Tensor y) -> ()", lambda x, y: None)

    @torchair.register_fx_node_ge_converter(operator.default)
    def convert(x, y):
        ge.custom_op("AssignAdd", x, y)

    with pytest.raises(
        RuntimeError, match="a value of rank 2 can't be written to one of 1"
    ):
        compiled(lambda x, y: operator(x, y) or x * 2)(
            torch.randn(3), torch.randn(2, 3)
        )


def test_out_arguments(library) -> None:
    """`out` arguments that are returned or not, of one overload or several. The converter
    writes to them itself, or returns the value to write."""
    library.define("plus(Tensor x, Tensor y) -> Tensor")
    returns = define_overload(
        library, "plus.out(Tensor x, Tensor y, *, Tensor(a!) out) -> Tensor(a!)"
    )
    nothing = define_overload(library, "minus(Tensor x, *, Tensor(a!) out) -> ()")

    @torchair.register_fx_node_ge_converter(returns)
    def convert_plus(x, y, *, out=None, meta_outputs=None):
        return ge.custom_op("Add", x, y)

    @torchair.register_fx_node_ge_converter(nothing)
    def convert_minus(x, *, out):
        ge.custom_op("Assign", out, ge.custom_op("Neg", x))

    def function(x, y, out):
        found = torch.ops.writing.plus.out(x, y, out=out)
        other = torch.empty_like(x)
        torch.ops.writing.minus(found, out=other)
        return found * 2, other

    def eager(x, y, out):
        out.copy_(x + y)
        return out * 2, -out

    agree(function, eager, *(torch.randn(3, 4) for _ in range(3)))


def test_two_arguments_are_returned(library) -> None:
    operator = define_overload(
        library,
        "split_out(Tensor x, Tensor(a!) low, Tensor(b!) high)"
        " -> (Tensor(a!), Tensor(b!))",
    )

    @torchair.register_fx_node_ge_converter(operator)
    def convert(x, low, high):
        return ge.custom_op("Neg", x), ge.custom_op("Muls", x, 3.0)

    def function(x, low, high):
        first, second = torch.ops.writing.split_out(x, low, high)
        return first + second

    def eager(x, low, high):
        low.copy_(-x)
        high.copy_(x * 3)
        return low + high

    agree(function, eager, *(torch.randn(3, 4) for _ in range(3)))


def define_overload(library: torch.library.Library, schema: str) -> Any:
    """Defines an overload whose shape function returns the written arguments."""
    library.define(schema)
    name, _, overload = schema.partition("(")[0].partition(".")

    def fake(*args, **kwargs):
        made = getattr(getattr(torch.ops.writing, name), overload or "default")
        given = dict(zip((a.name for a in made._schema.arguments), args)) | kwargs
        written = [given[a.name] for a in made._schema.arguments if a.alias_info]
        if not made._schema.returns:
            return None
        return written[0] if len(written) == 1 else tuple(written)

    full = f"writing::{name}.{overload}" if overload else f"writing::{name}"
    torch.library.register_fake(full, fake, lib=library)
    return getattr(getattr(torch.ops.writing, name), overload or "default")
