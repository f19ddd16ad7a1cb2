"""Fixtures: each test starts with an empty cache and with no warning given yet."""

from __future__ import annotations

import logging
from collections import defaultdict

import covering
import file_order
import many_compilations
import pytest
import torch

import anabranch
import checklist
import torch_npu  # noqa: F401 - makes `npu` known
import torchair
from torchair._impl import errors
from torchair._impl.compile import graph_compiler

_outcomes: dict[str, list[str]] = defaultdict(list)


def pytest_addoption(parser) -> None:
    parser.addoption("--checklist", action="store_true", help="write CHECKLIST.md")


def pytest_collection_modifyitems(config, items) -> None:
    covering.leave_out(config, items)
    file_order.longest_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" or report.outcome != "passed":
        for mark in item.iter_markers("checklist"):
            for number in mark.args:
                _outcomes[number].append(report.outcome)
    return report


def pytest_sessionfinish(session) -> None:
    if session.config.getoption("checklist", default=False):
        checklist.PAGE.write_text(checklist.page(checklist.merged(_outcomes)))


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
    torch._dynamo.reset()
    anabranch.counters.reset()
    errors.reset_warnings()
    torch.manual_seed(0)
    level = torchair.logger.level
    yield
    torchair.logger.setLevel(level)
    torch._dynamo.reset()


@pytest.fixture
def compiled_nodes(monkeypatch):
    """(operator, stream) of each node of each graph that the compiler gets."""
    found: list[list[tuple[str, str | None]]] = []
    compile_graph = graph_compiler.extension.compile_graph

    def keep(module, *arguments, **settings):
        found.append(
            [
                (n.target.name(), anabranch.extension.stream_of(n))
                for n in module.graph.nodes
                if n.op == "call_function"
            ]
        )
        return compile_graph(module, *arguments, **settings)

    monkeypatch.setattr(graph_compiler.extension, "compile_graph", keep)
    return found


@pytest.fixture
def debug():
    torchair.logger.setLevel(logging.DEBUG)


@pytest.fixture
def config() -> torchair.CompilerConfig:
    return torchair.CompilerConfig()
