"""Graph breaks before, in and after scopes, and eager code that is no graph break."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch._dynamo import graph_break
from torch._dynamo.exc import Unsupported

import anabranch
import torchair as tng

SCOPES = {
    "npu_stream_switch('1')": lambda: tng.scope.npu_stream_switch("1"),
    "super_kernel('sp')": lambda: tng.scope.super_kernel("sp"),
    "limit_core_num(1, 2)": lambda: tng.scope.limit_core_num(1, 2),
    "data_dump()": lambda: tng.scope.data_dump(),
}


@pytest.mark.parametrize("name", SCOPES)
def test_a_break_inside_names_both_lines(name) -> None:
    scope = SCOPES[name]

    def function(x):
        with scope():
            y = x * 2
            graph_break()
        return y + 1

    start = inspect.getsourcelines(function)[1]
    with pytest.raises(RuntimeError) as caught:
        torch.compile(function, backend=tng.get_npu_backend())(torch.ones(2))
    text = str(caught.value)
    assert isinstance(caught.value, Unsupported)
    assert f"breaks inside of torchair.scope.{name}" in text
    assert f"scope: {__file__}:{start + 1}, in function: with scope():" in text
    assert f"break: {__file__}:{start + 3}, in function: graph_break()" in text


@pytest.mark.parametrize("name", SCOPES)
def test_breaks_outside_are_as_without_scopes(name) -> None:
    scope = SCOPES[name]

    def function(x):
        y = x + 1
        graph_break()
        with scope():
            y = y * 2
        graph_break()
        return y - 1

    x = torch.randn(4)
    run = torch.compile(function, backend=tng.get_npu_backend())
    torch.testing.assert_close(run(x), (x + 1) * 2 - 1)
    assert anabranch.counters.kernels >= 3
