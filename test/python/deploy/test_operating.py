"""Operations: logs, metrics, versions, and messages about bad options."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import anabranch

ROOT = Path(__file__).resolve().parents[3]

EVENTS = """
import torch, anabranch
model, x = torch.nn.Linear(4, 4).eval(), torch.ones(3, 4)
with torch.no_grad():
    config = anabranch.Config(freeze=True, explain=True, cache=True)
    compiled = anabranch.compile(model, config=config, dynamic=False)
    compiled(x)
    model.weight.add_(1)
    compiled(x)
    anabranch.compile(lambda x: x.to_mkldnn().to_dense(), config=config)(x)
"""


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def test_each_event_is_a_line_of_json():
    done = run(sys.executable, "-c", EVENTS, ANABRANCH_LOG="json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stderr.splitlines()]
    for event in events:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", event["time"])
        assert event["level"] in ("info", "warning")
    (compiled, *_) = [e for e in events if e["event"] == "compiled"]
    assert compiled["cache"] == "miss"
    assert compiled["kernels"] >= 1
    assert compiled["ms"] > 0
    (repacked,) = [e for e in events if e["event"] == "repacked"]
    assert repacked["weights"] == ["weight"]


def test_a_wrong_kind_of_log_is_named():
    done = run(sys.executable, "-c", EVENTS, ANABRANCH_LOG="xml")
    assert done.returncode != 0
    assert "ANABRANCH_LOG must be json or not set, got 'xml'" in done.stderr


def values() -> dict[str, float]:
    return {
        sample.name + str(sample.labels.get("le", "")): sample.value
        for metric in anabranch.metrics.collect()
        for sample in metric.samples
    }


def test_metrics_count_what_happens(tmp_path):
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), torch.ones(3, 4)
    anabranch.export(model, tmp_path / "p", x)
    before = values()
    with torch.no_grad():
        config = anabranch.Config(freeze=True, cache=False)
        compiled = anabranch.compile(model, config=config, dynamic=False)
        for _ in range(5):
            compiled(x)
        model[0].weight.add_(1)
        compiled(x)
        loaded = anabranch.load(tmp_path / "p")
        for _ in range(3):
            loaded(x.numpy())
        with pytest.raises(Exception, match="shape"):
            loaded(torch.ones(3, 5).numpy())
    after = values()
    changed = {name: after[name] - before[name] for name in after}
    assert changed["anabranch_compiles_total"] == 1
    assert changed["anabranch_cache_hits_total"] == 0
    assert changed["anabranch_repacked_total"] == 1
    assert changed["anabranch_call_seconds_count"] == 9
    assert changed["anabranch_call_seconds_bucket+Inf"] == 9
    assert changed["anabranch_call_seconds_sum"] > 0
    buckets = [v for name, v in changed.items() if "_bucket" in name]
    assert buckets == sorted(buckets)


def test_each_counter_is_a_metric_of_its_name():
    fields = {field.name for field in dataclasses.fields(anabranch.counters)}
    metrics = {m.name for m in anabranch.metrics.collect() if m.type == "counter"}
    assert metrics == {f"anabranch_{name}" for name in fields}


def test_cache_hits_are_counted(tmp_path, monkeypatch):
    monkeypatch.setenv("ANABRANCH_CACHE", "1")
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path))
    model, x = nn.Linear(4, 6).eval(), torch.ones(3, 4)
    before = values()
    with torch.no_grad():
        for _ in range(2):
            torch._dynamo.reset()
            anabranch.compile(model, dynamic=False)(x)
    after = values()
    for name in ("anabranch_compiles_total", "anabranch_cache_hits_total"):
        assert after[name] - before[name] == 1


def test_text_is_what_prometheus_reads():
    lines = anabranch.metrics.text().splitlines()
    assert "# TYPE anabranch_compiles_total counter" in lines
    assert "# TYPE anabranch_call_seconds histogram" in lines
    sample = re.compile(r'anabranch_\w+(\{le="[^"]+"\})? [\d.e+-]+')
    assert all(line.startswith("# ") or sample.fullmatch(line) for line in lines)


def test_the_client_of_prometheus_takes_the_module():
    client = pytest.importorskip("prometheus_client")
    registry = client.CollectorRegistry()
    registry.register(anabranch.metrics)
    page = client.generate_latest(registry).decode()
    ours = anabranch.metrics.text().splitlines()
    assert [line for line in ours if line.startswith("# TYPE")] == [
        line for line in page.splitlines() if line.startswith("# TYPE")
    ]
    assert {line.split(" ")[0] for line in ours if line[0] != "#"} == {
        line.split(" ")[0] for line in page.splitlines() if line[0] != "#"
    }


def tool(name: str) -> list[str]:
    if name == "anabranch":
        return [sys.executable, "-m", "anabranch.cli"]
    path = ROOT / "build/bin" / name
    if not path.exists():
        pytest.skip(f"{name} is not built")
    return [str(path)]


def test_the_runtime_alone_writes_lines_of_json():
    done = run(*tool("anabranch-run"), "/no/package", ANABRANCH_LOG="json")
    assert done.returncode == 1
    event = json.loads(done.stderr)
    assert (event["level"], event["kind"]) == ("warning", "anabranch-run")
    assert "/no/package" in event["text"]


@pytest.mark.parametrize("name", ["anabranch", "anabranch-run", "anabranch-opt"])
def test_every_tool_says_its_version_and_names_bad_options(name):
    done = run(*tool(name), "--version")
    assert done.returncode == 0
    assert anabranch.__version__ in done.stdout
    done = run(*tool(name), "--nonsense")
    assert done.returncode != 0
    if name != "anabranch":  # the error asks for a command first
        assert "--nonsense" in done.stderr
    else:
        done = run(*tool(name), "machine", "--nonsense")
        assert "--nonsense" in done.stderr


@pytest.mark.parametrize(
    "options, wrong",
    [
        (["--repeat", "0"], "--repeat must be a number from 1, not '0'"),
        (["--threads", "many"], "--threads must be a number from 1 to 1023"),
        (["--device"], "--device needs a value"),
        (["p", "q"], "there are two packages: p and q"),
        ([], "no package is named"),
    ],
)
def test_anabranch_run_says_what_is_wrong(options, wrong):
    done = run(*tool("anabranch-run"), *options)
    assert done.returncode == 2
    assert wrong in done.stderr
