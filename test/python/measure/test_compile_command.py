"""`anabranch compile`: packages for this machine and for others, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import anabranch
from anabranch.cli import main

MODEL = """
import torch

def workload():
    torch.manual_seed(0)
    return torch.nn.Linear(8, 4).eval(), (torch.ones(3, 8),)

def function():
    return lambda x: x + 1, (torch.ones(3),)
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


def test_writes_a_package_for_this_machine(model: Path, capsys) -> None:
    assert main(["compile", str(model)]) == 0
    assert capsys.readouterr().out == "model.anb\n"
    torch.manual_seed(0)
    wanted = torch.nn.Linear(8, 4)(torch.ones(3, 8)).detach()
    got = anabranch.load("model.anb")(np.ones((3, 8), np.float32))
    torch.testing.assert_close(torch.from_numpy(got), wanted)


def test_writes_a_package_for_other_machines(model: Path) -> None:
    command = ["compile", f"{model}:workload", "--for", "x86-64-v3", "neoverse-v1"]
    assert main([*command, "-o", "both.anb"]) == 0
    manifest = json.loads(Path("both.anb", "manifest.json").read_text())
    assert {"x86-64-v3", "neoverse-v1"} <= set(str(manifest).split("'"))
    assert main([*command, "-o", "both.anb"]) == 1
    assert main([*command, "-o", "both.anb", "--overwrite"]) == 0


@pytest.mark.parametrize("name", ["model.py", "model.py:workload"])
def test_the_model_may_come_after_the_targets(model: Path, name: str) -> None:
    for targets in (["neoverse-v1"], ["x86-64-v3", "neoverse-v1"]):
        for rest in ([name, "-o", "out.anb"], ["-o", "out.anb", name]):
            assert main(["compile", "--for", *targets, *rest, "--overwrite"]) == 0
            manifest = Path("out.anb", "manifest.json").read_text()
            assert all(f"'{target}'" in str(json.loads(manifest)) for target in targets)


@pytest.mark.parametrize(
    "words, why",
    [
        ([], "takes one model, FILE.py or module:function; none is named"),
        (["--for", "neoverse-v1"], "none is named"),
        (["a.py", "--for", "neoverse-v1", "b.py"], "got a.py and b.py"),
        (["--for", "a.py"], "--for names no target"),
    ],
)
def test_wants_one_model_and_a_target(words: list[str], why: str, capsys) -> None:
    assert main(["compile", *words]) == 1
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, why",
    [
        (["--for", "neoverse-v9"], "unknown target 'neoverse-v9'"),
        (["--for", "neoverse-v1", "--tune"], "not on neoverse-v1: leave the option"),
        (["-o", "none/model.anb"], "there is no folder"),
    ],
)
def test_says_what_is_wrong(model: Path, arguments: list[str], why: str, capsys):
    assert main(["compile", str(model), *arguments]) == 1
    assert why in capsys.readouterr().err
    assert not Path("model.anb").exists()


def test_takes_modules_alone(model: Path, capsys) -> None:
    assert main(["compile", f"{model}:function"]) == 1
    assert "must be an nn.Module" in capsys.readouterr().err
    Path("folder.anb").mkdir()
    assert main(["compile", "folder.anb"]) == 1
    assert "a package is compiled already" in capsys.readouterr().err
