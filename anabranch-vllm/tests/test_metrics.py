"""Anabranch's counters for vLLM's /metrics, over a stand-in for the Prometheus client.
Needs no vLLM."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

import anabranch
from anabranch_vllm import metrics


class Registry(list):
    register = list.append


def family(name: str, documentation: str, value: float) -> tuple[str, str, float]:
    return name, documentation, value


@pytest.fixture
def registry(monkeypatch):
    client, core = ModuleType("prometheus_client"), ModuleType("prometheus_client.core")
    client.REGISTRY, core.CounterMetricFamily = Registry(), family
    monkeypatch.setitem(sys.modules, client.__name__, client)
    monkeypatch.setitem(sys.modules, core.__name__, core)
    monkeypatch.setenv(metrics.FOLDER, "")  # so that the test's end restores it
    monkeypatch.delenv(metrics.FOLDER)
    return client.REGISTRY


def values(registry) -> dict[str, float]:
    return {name: value for name, _, value in registry[0].collect()}


def test_each_counter_is_a_metric(registry) -> None:
    """It has the name that anabranch.metrics gives it."""
    fields = [field.name for field in dataclasses.fields(anabranch.counters)]
    metrics.publish()
    assert values(registry) == {f"anabranch_{name}": 0 for name in fields}
    own = [m.name for m in anabranch.metrics.collect() if m.type == "counter"]
    assert list(values(registry)) == own


def test_counters_of_all_workers_are_added(registry) -> None:
    metrics.publish()
    metrics.publish()  # vLLM asks for the platform more than once
    assert len(registry) == 1
    folder = Path(os.environ[metrics.FOLDER])
    (folder / "1.json").write_text(json.dumps({"graphs": 2}))  # a worker that has ended
    (folder / "2.part").write_text("{")  # a worker that is writing
    writer = metrics.Writer()
    for graphs in (1, 3):
        anabranch.counters.graphs = graphs
        writer.update()
        assert values(registry)["anabranch_graphs"] == 2 + graphs


def test_equal_counters_are_written_once(registry) -> None:
    metrics.publish()
    writer = metrics.Writer()
    writer.update()
    (path,) = Path(os.environ[metrics.FOLDER]).iterdir()
    path.unlink()
    writer.update()
    assert not path.exists()


def test_a_worker_writes_nothing_without_a_folder(registry, monkeypatch) -> None:
    metrics.Writer().update()
    monkeypatch.setenv(metrics.FOLDER, "/proc/no-such-folder")
    metrics.Writer().update()
    metrics.publish()  # the variable says that another process has published
    assert not registry


def test_no_client_is_no_error(monkeypatch) -> None:
    monkeypatch.setenv(metrics.FOLDER, "")
    monkeypatch.delenv(metrics.FOLDER)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    metrics.publish()
    assert metrics.FOLDER not in os.environ
