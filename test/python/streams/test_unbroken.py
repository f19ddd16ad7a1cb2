"""Graph breaks before and after scopes are accepted; those inside are errors."""

from __future__ import annotations

import contextlib
import inspect

import pytest
import torch
from torch._dynamo import graph_break
from torch._dynamo.exc import Unsupported

import anabranch

SCOPES = {
    "stream('side')": lambda: anabranch.stream("side"),
    "limit_cores(2)": lambda: anabranch.limit_cores(2),
    "super_kernel('sp')": lambda: anabranch.super_kernel("sp"),
}


def compiled(function, **settings):
    return torch.compile(function, backend="anabranch", **settings)


def line_of(function, text: str) -> int:
    """The number of the line of a function that contains the text."""
    lines, start = inspect.getsourcelines(function)
    (found,) = [start + n for n, line in enumerate(lines) if text in line]
    return found


def check_lines(message: str, function, scope: str, broken: str) -> None:
    assert f"scope: {__file__}:{line_of(function, scope)}, in" in message
    assert f"break: {__file__}:{line_of(function, broken)}, in" in message


@pytest.mark.parametrize("name", SCOPES)
@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_break_inside_names_both_lines(name, fullgraph) -> None:
    scope = SCOPES[name]

    def function(x):
        y = x + 1
        with scope():
            y = y * 2
            graph_break()
            y = y * 3
        return y + 1

    with pytest.raises(Unsupported) as caught:
        compiled(function, fullgraph=fullgraph)(torch.ones(2))
    assert f"breaks inside of anabranch.{name}" in str(caught.value)
    check_lines(str(caught.value), function, "with scope", "graph_break()")


@pytest.mark.parametrize("name", SCOPES)
def test_breaks_outside_are_as_without_scopes(name) -> None:
    scope = SCOPES[name]

    def function(x):
        y = x + 1
        graph_break()
        with scope():
            y = y * 2
        y = y - 3
        graph_break()
        with scope():
            y = y * 4
        graph_break()
        return y + 1

    x = torch.randn(4)
    torch.testing.assert_close(compiled(function)(x), ((x + 1) * 2 - 3) * 4 + 1)
    assert anabranch.counters.kernels >= 3


def test_a_break_in_a_helper_a_module_and_a_branch() -> None:
    class Talks(torch.nn.Module):
        def forward(self, x):
            print("hello")
            return x + 1

    module = Talks()

    def in_a_module(x):
        with anabranch.stream("side"):
            return module(x * 2)

    def in_a_branch(x):
        with anabranch.stream("side"):
            if x.sum() > 0:
                return x + 1
            return x - 1

    with pytest.raises(Unsupported) as caught:
        compiled(in_a_module)(torch.ones(2))
    assert f"scope: {__file__}:{line_of(in_a_module, 'with')}, in" in str(caught.value)
    assert 'in forward: print("hello")' in str(caught.value)
    with pytest.raises(Unsupported) as caught:
        compiled(in_a_branch)(torch.ones(2))
    check_lines(str(caught.value), in_a_branch, "with", "if x.sum")


def test_the_innermost_scope_is_named() -> None:
    @contextlib.contextmanager
    def both():
        with anabranch.stream("outer"), anabranch.limit_cores(1):
            yield

    def function(x):
        with both():
            y = x + 1
            with anabranch.super_kernel("inner"):
                y = y + 2
            graph_break()
        return y

    with pytest.raises(Unsupported, match=r"inside of anabranch.limit_cores\(1\)") as e:
        compiled(function)(torch.ones(2))
    check_lines(str(e.value), function, "with both", "graph_break()")


def test_a_scope_that_is_left_by_an_exception_is_left() -> None:
    def function(x):
        try:
            with anabranch.stream("side"):
                y = x + 1
                raise ValueError
        except ValueError:
            y = x + 2
        graph_break()
        return y * 2

    torch.testing.assert_close(compiled(function)(torch.ones(2)), torch.full((2,), 6.0))


def test_a_break_elsewhere_does_not_name_a_scope() -> None:
    def function(x):
        with anabranch.stream("side"):
            y = x + 1
        graph_break()
        return y

    with pytest.raises(Unsupported) as caught:
        compiled(function, fullgraph=True)(torch.ones(2))
    assert "anabranch.stream" not in str(caught.value)


def test_an_error_leaves_later_compilations_alone() -> None:
    def breaks(x):
        with anabranch.stream("side"):
            graph_break()
            return x + 1

    def function(x):
        graph_break()
        return x + 1

    with pytest.raises(Unsupported):
        compiled(breaks)(torch.ones(2))
    torch.testing.assert_close(compiled(function)(torch.ones(2)), torch.full((2,), 2.0))


def test_breaks_in_eager_scopes_are_none() -> None:
    def function(x):
        graph_break()
        return x + 1

    run = compiled(function)
    with anabranch.stream("side"):
        torch.testing.assert_close(run(torch.ones(2)), torch.full((2,), 2.0))
