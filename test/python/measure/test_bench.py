"""`anabranch bench`: its rows, records, comparisons and refusals."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import anabranch
from anabranch import cli
from anabranch.measure.latency import Limits, measure, percentile

WORKLOAD = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(10, 8)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, ids, scale, *, shift=0.0):
        return self.linear(self.table(ids)) * scale + shift

def workload():
    return Model().eval(), (torch.arange(6).reshape(2, 3), torch.ones(4))

def named():
    return Model().eval(), {"ids": torch.arange(6), "scale": torch.ones(4), "shift": 1.0}

def many():
    return (lambda *xs: sum(xs)), [torch.ones(3), torch.ones(3)]

def training():
    return Model(), (torch.arange(6), torch.ones(4))

def alone():
    return Model().eval()

def no_model():
    return 7, ()

def no_inputs():
    return Model().eval(), torch.ones(4)

def few_inputs():
    return Model().eval(), (torch.arange(6),)

def broken():
    raise KeyError("weights")
"""


@pytest.fixture
def workload(tmp_path):
    path = tmp_path / "some_model.py"
    path.write_text(WORKLOAD)
    return str(path)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("bench") / "model.anb")
    model = nn.Sequential(nn.Linear(16, 8), nn.Softmax(-1)).eval()
    sizes = ({0: Dim("rows", min=1, max=64)},)
    anabranch.export(model, folder, (torch.randn(4, 16),), dynamic_shapes=sizes)
    return folder


def bench(*arguments, expect=0):
    assert cli.main(["bench", *arguments, "--warm-up", "1"]) == expect


def record_of(path):
    return json.loads(path.read_text())


def test_package_has_a_row_for_each_shape(package, tmp_path, capsys):
    out = tmp_path / "record.json"
    shapes = ["--shape", "input=4x16", "--shape", "input=64x16"]
    bench(package, *shapes, "--calls", "20", "--threads", "1", "--json", str(out))
    record = record_of(out)
    assert [run["shapes"] for run in record["runs"]] == [
        {"input": "4x16"},
        {"input": "64x16"},
    ]
    for run in record["runs"]:
        latency = run["latency_ms"]
        assert run["calls"] == 20 and run["first_ms"] > 0
        order = ["min", "median", "p90", "p95", "p99", "max"]
        values = [latency[name] for name in order]
        assert values == sorted(values) and values[0] > 0
        assert run["calls_per_second"] == pytest.approx(20 / run["seconds"])
    assert record["threads"] == 1 and record["callers"] == 1
    assert record["machine"]["cpu"] and record["date"]
    assert record["versions"]["anabranch"] == anabranch.__version__
    printed = capsys.readouterr().out
    assert "p99" in printed and "input=64x16" in printed


def test_package_with_state_names_and_trees(tmp_path, capsys):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x, pair, *, scale):
            self.seen += 1
            return x * scale + pair["a"] - pair["b"][0] + self.seen

    inputs = {
        "x": torch.ones(3),
        "pair": {"a": torch.ones(3), "b": (torch.ones(3),)},
        "scale": torch.ones(3, dtype=torch.bfloat16),
    }
    folder = str(tmp_path / "model.anb")
    anabranch.export(Model().eval(), folder, inputs)
    bench(folder, "--calls", "8", "--callers", "2")
    assert "pair_a=3" in capsys.readouterr().out


@pytest.mark.parametrize(
    "function", ["", ":workload", ":named", ":many"], ids=lambda name: name or "file"
)
def test_models(workload, function, tmp_path, capsys):
    out = tmp_path / "record.json"
    bench(workload + function, "--calls", "5", "--json", str(out))
    assert record_of(out)["runs"][0]["calls"] == 5


def test_module_shapes_values_and_options(workload, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    np.save("scale.npy", np.full(4, 2, np.float32))
    shape, value = ["--shape", "ids=1x2"], ["--input", "scale=scale.npy"]
    options = ["--option", "freeze=true", "--option", "streams=auto"]
    out = tmp_path / "record.json"
    bench(
        "some_model:workload", *shape, *value, *options, "--calls", "3", "--json", "r"
    )
    record = record_of(tmp_path / "r")
    assert record["runs"][0]["shapes"] == {"ids": "1x2", "scale": "4"}
    assert record["options"] == {"freeze": True, "streams": "auto"}
    bench(
        "some_model:workload", "--engine", "eager", "--calls", "3", "--json", str(out)
    )
    assert record_of(out)["engine"] == "eager"


def test_seconds_end_a_row_and_a_call_is_never_cut():
    start = time.perf_counter()
    done = measure([lambda: time.sleep(0.01)] * 2, Limits(0.1, None, 1))
    assert 0.1 <= done.seconds < 5 and time.perf_counter() - start < 10
    assert len(done.calls) >= 2
    assert len(measure([lambda: time.sleep(0.05)], Limits(1e-9, None, 0)).calls) == 1


def test_percentiles_are_nearest_ranks():
    assert percentile([1, 2, 3, 4], 50) == 2
    assert percentile([1, 2, 3, 4], 99) == 4
    assert percentile([7], 90) == 7


def test_error_of_one_caller_ends_all():
    def fails():
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        measure([lambda: None, fails], Limits(60, None, 1))


def test_compare(package, tmp_path, capsys):
    out = tmp_path / "old.json"
    shape = ["--shape", "input=4x16", "--calls", "50"]
    bench(package, *shape, "--json", str(out))
    old = record_of(out)
    for factor, status, words in ((1000, 0, "x"), (1e-6, 2, "SLOWER")):
        changed = json.loads(json.dumps(old))
        changed["runs"][0]["latency_ms"]["median"] *= factor
        out.write_text(json.dumps(changed))
        capsys.readouterr()
        bench(package, *shape, "--compare", str(out), expect=status)
        assert words in capsys.readouterr().out.splitlines()[-1]
    old["machine"], old["runs"] = {"cpu": "another"}, []
    out.write_text(json.dumps(old))
    bench(package, *shape, "--compare", str(out))
    printed = capsys.readouterr().out
    assert "another machine" in printed and "not measured before" in printed


def test_package_needs_no_torch(package, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from anabranch import cli\n"
        f"sys.exit(cli.main(['bench', {package!r}, '--shape', 'input=2x16',"
        " '--calls', '3']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


MISTAKES = {
    "nothing": (["nowhere"], "no package's folder, and no FILE.py"),
    "no file": (["nowhere.py"], "there is no file nowhere.py"),
    "no module": (["no_module_of_this_name:f"], "can't be imported"),
    "folder": (["."], "is no package: it has no manifest.json"),
    "function": (["MODEL:nothing"], "has no function 'nothing'"),
    "raises": (["MODEL:broken"], "the function failed at .*KeyError: 'weights'"),
    "training": (["MODEL:training"], r"in training mode: call model.eval\(\)"),
    "alone": (["MODEL:alone"], "must return a model and its inputs, got Model"),
    "no model": (["MODEL:no_model"], "the model must be callable, got int"),
    "no inputs": (["MODEL:no_inputs"], "must be a tuple or a dict, got Tensor"),
    "few inputs": (["MODEL:few_inputs"], "do not fit the model: missing .*'scale'"),
    "option": (["MODEL", "--option", "freez=true"], "did you mean 'freeze'"),
    "option form": (["MODEL", "--option", "freeze"], "must look like NAME=VALUE"),
    "option twice": (
        ["MODEL", "--option", "freeze=true", "--option", "freeze=false"],
        "names 'freeze' twice",
    ),
    "option of eager": (
        ["MODEL", "--option", "freeze=true", "--engine", "eager"],
        "--option is not for --engine eager",
    ),
    "shape form": (["MODEL", "--shape", "ids"], "must look like NAME=1x128"),
    "shape number": (["MODEL", "--shape", "ids=1x-2"], "must look like NAME=1x128"),
    "shape twice": (["MODEL", "--shape", "ids=1,ids=2"], "names 'ids' twice"),
    "shape name": (
        ["MODEL", "--shape", "id=1"],
        "no input 'id'; there are: ids, scale",
    ),
    "shape of no tensor": (["MODEL:named", "--shape", "shift=1"], "is no tensor"),
    "shape refused": (["MODEL", "--shape", "scale=3"], "the call fails for .*scale=3"),
    "no value": (["MODEL", "--input", "ids=nothing.npy"], "can't be read"),
    "threads": (["MODEL", "--threads", "-1"], "--threads must be at least 0"),
    "many threads": (["MODEL", "--threads", "9999"], "--threads must be at most 1024"),
    "callers": (["MODEL", "--callers", "0"], "--callers must be at least 1"),
    "calls": (["MODEL", "--calls", "0"], "--calls must be at least 1"),
    "seconds": (["MODEL", "--seconds", "0"], "--seconds must be positive"),
    "no seconds": (["MODEL", "--seconds", "nan"], "--seconds must be positive"),
    "place": (["MODEL", "--json", "no/such/record.json"], "there is no folder"),
    "no record": (["MODEL", "--compare", "MODEL"], "is no record of anabranch bench"),
    "no old record": (["MODEL", "--compare", "nothing.json"], "No such file"),
    "engine": (["PACKAGE", "--engine", "eager"], "needs a model, not a package"),
    "package option": (
        ["PACKAGE", "--option", "freeze=true"],
        "--option needs a model",
    ),
    "open size": (["PACKAGE"], "--shape input=Nx16"),
    "fixed size": (["PACKAGE", "--shape", "input=4x15"], "whose input is Nx16"),
    "rank": (["PACKAGE", "--shape", "input=4"], "whose input is Nx16"),
    "bound": (["PACKAGE", "--shape", "input=65x16"], "made for 64 or less"),
    "name": (["PACKAGE", "--shape", "x=4x16"], "no input 'x'; there are: input"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case, workload, package, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    arguments, message = MISTAKES[case]
    names = {"MODEL": workload, "PACKAGE": package}
    given = [names.get(a, a.replace("MODEL:", workload + ":")) for a in arguments]
    assert cli.main(["bench", "--calls", "1", *given]) == 1
    said = capsys.readouterr().err
    assert said.startswith("anabranch: ") and "Traceback" not in said
    assert re.search(message, said), said
