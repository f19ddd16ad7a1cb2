"""Dynamo's code around a graph does not measure itself, and that of others does."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo.config as settings

import anabranch
from anabranch.errors import OptionError
from anabranch.method_cache.save.code_hook import translations


def measures(function, *arguments) -> bool:
    """Whether the code that Dynamo makes in this call measures itself."""
    codes = []
    with translations(lambda _, new: codes.append(new)):
        function(*arguments)
    assert codes
    return any("record_pregraph_bytecode_enter" in code.co_names for code in codes)


def test_only_code_around_our_graphs_is_quiet():
    def ours(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    def theirs(x):
        return x - 1

    x = torch.randn(3)
    for _ in range(2):  # a reset forgets the code
        torch._dynamo.reset()
        assert not measures(torch.compile(ours, backend=anabranch.anabranch), x)
        assert settings.record_runtime_overhead
        assert measures(torch.compile(theirs, backend="eager"), x)


def test_a_compilation_that_fails_changes_no_setting():
    def function(x):
        return x + 1

    compiled = torch.compile(
        function, backend=anabranch.anabranch, options={"nonsense": 1}
    )
    with pytest.raises(OptionError):
        compiled(torch.ones(3))
    assert settings.record_runtime_overhead


def test_a_setting_of_the_user_stays():
    with settings.patch(record_runtime_overhead=False):
        torch.compile(lambda x: x + 3, backend=anabranch.anabranch)(torch.ones(3))
        assert not settings.record_runtime_overhead
    assert settings.record_runtime_overhead


def test_a_direct_call_of_the_backend_changes_no_setting():
    graph = torch.fx.symbolic_trace(lambda x: (x + 1,))
    call = anabranch.anabranch(graph, [torch.ones(3)])
    assert torch.equal(call(torch.ones(3))[0], torch.full((3,), 2.0))
    assert settings.record_runtime_overhead
