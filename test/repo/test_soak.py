"""`make soak`: its programs exist, and it reports failed and unknown tasks."""

import subprocess
import sys

import opinfo
import pytest

from repository import ROOT, script

PATH = ROOT / "scripts" / "soak.py"


@pytest.fixture(scope="module")
def soak():
    return script("soak")


def test_every_task_names_files_that_exist(soak):
    for task in soak.TASKS:
        command = task.command(0)
        for word in (w for w in command if w.endswith(".py")):
            assert (ROOT / word).exists(), f"{task.name}: {word}"
        changes = task.command(3) != command or task.environment(3) != task.environment(
            0
        )
        assert changes != task.once


def test_its_dtypes_are_those_of_the_database(soak):
    assert set(soak.DTYPES) <= set(opinfo.DTYPES)


def test_a_task_that_fails_is_counted_and_says_how_to_run_it_again(soak, capsys):
    bad = soak.Task("bad", lambda turn: ["false"], lambda turn: {"SEED": str(turn)})
    assert soak.soak(
        [bad, soak.Task("good", lambda turn: ["true"])], 0, {"WHERE": "x"}
    ) == {
        "bad": 1,
        "good": 0,
    }
    assert "again: SEED=0 WHERE=x false" in capsys.readouterr().out


def test_an_unknown_task_is_named():
    done = subprocess.run(
        [sys.executable, PATH, "updatez"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "no task 'updatez'; known: updates" in done.stderr


def test_the_sanitized_package_has_the_sources_and_another_binding(tmp_path):
    package = tmp_path / "anabranch"
    for _ in range(2):  # a second run finds what is there
        script("sanitized_python")._link_sources(package)
    assert (package / "backend.py").samefile(ROOT / "python/anabranch/backend.py")
    assert (package / "capture").is_dir()
    assert not list(package.glob("*.so"))


def test_the_sanitizer_leaves_out_what_is_no_python(soak):
    assert {task.name for task in soak.TASKS if not task.sanitizes} == {
        "runtime",
        "marked tests",
    }
