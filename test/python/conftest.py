"""Fixtures: they reset Dynamo before each test, and describe graphs."""

from __future__ import annotations

import os
import sys

import many_compilations
import pytest
import torch

import anabranch
from anabranch import backend
from anabranch.describe import graph
from anabranch.describe.description import Description
from anabranch.describe.symbols import Unsupported
from anabranch.shapes import ahead, tier_costs, tiers

# Hides the NPU of torchair-compat from this process and its children.
os.environ["ANABRANCH_NO_NPU"] = "1"
sys.modules["torch_npu"] = None  # type: ignore[assignment]


@pytest.fixture(autouse=True, scope="session")
def cache_home(tmp_path_factory):
    """Each test has an empty cache, unless it asks for one."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("ANABRANCH_CACHE", "0")
        patch.setenv("ANABRANCH_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(autouse=True, scope="session")
def spared():
    many_compilations.spare()


@pytest.fixture(autouse=True)
def fresh():
    # A test must not count compilations that an earlier test left to threads.
    assert ahead.finish(120) and tiers.worker().finish(120)
    torch._dynamo.reset()
    anabranch.counters.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture(autouse=True)
def tiers_pay(request, monkeypatch):
    """Every shape gets a tier at once, unless the test is marked `tier_costs`."""
    if request.node.get_closest_marker("tier_costs") is None:
        monkeypatch.setattr(tier_costs.Gains, "pay", lambda *_: True)
        monkeypatch.setattr(tier_costs.Budget, "has", lambda *_: True)
        monkeypatch.setattr(tier_costs.Rest, "is_present", lambda *_: True)


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory):
    """A folder that the tests of one file have in common."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def describe(monkeypatch):
    """describe(function, *arguments, dynamic=..., options=...) gives the descriptions
    of a function's graphs. For a graph without description it gives the reason, as a
    string."""
    found: list[Description | str] = []

    def keep(module, inputs, sources, **_settings):
        try:
            found.append(graph.GraphReader(module, "test", sources).read())
        except Unsupported as reason:
            found.append(str(reason))
        return backend.run_eagerly(module)

    def run(function, *arguments, grad=False, **settings):
        monkeypatch.setattr(backend, "compile_graph", keep)
        found.clear()
        with torch.set_grad_enabled(grad):
            torch.compile(function, backend=backend.anabranch, **settings)(*arguments)
        return list(found)

    return run
