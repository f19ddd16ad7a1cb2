"""Pages name files that exist, and the table of environment variables is complete."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from repository import ROOT, text, tracked


def report(problems: list[str]) -> None:
    assert not problems, "\n".join(problems)


class RecordingEnvironment(dict):
    """An empty environment that records the names of variables that code reads."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    def get(self, name: str, default: str | None = None) -> str | None:
        self.asked.add(name)
        return default


def read_by_config(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The variables that the Python front end reads: one function reads all of them."""
    path = ROOT / "python" / "anabranch" / "config.py"
    spec = importlib.util.spec_from_file_location("anabranch_config", path)
    assert spec
    assert spec.loader
    config = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, config)
    spec.loader.exec_module(config)
    environment = RecordingEnvironment()
    monkeypatch.setattr(config.os, "environ", environment)
    config.environment()
    return environment.asked


def test_environment_table_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/debugging.md lists the variables that the code reads, and no others."""
    read = re.compile(r"""(?:getenv|environ\.get|environ)\s*[(\[]\s*"(ANABRANCH_\w+)""")
    used: set[str] = set()
    for path in tracked("src", "tools", "scripts", "python"):
        if path.suffix in (".cpp", ".h", ".py"):
            used |= set(read.findall(text(path)))
    used |= read_by_config(monkeypatch)
    page = (ROOT / "docs" / "debugging.md").read_text()
    documented = set(re.findall(r"^\| `(ANABRANCH_\w+)", page, re.MULTILINE))
    assert documented == used


PAGES = [
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/debugging.md"),
    *("docs/containers.md", "docs/glossary.md", "docs/install.md", "docs/limits.md"),
    "docs/llm.md",
    *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs/design").glob("*.md")),
]


def stands_for_a_file(name: str, known: set[str]) -> bool:
    """`src/package/folder/Reader.h`, `src/package/files/Reader` for both of its files,
    `Reader.h` alone, or what the build makes."""
    if "/" not in name:
        return name in known
    path = ROOT / name
    made = f"/{name}" in (ROOT / ".gitignore").read_text().splitlines()
    return made or path.exists() or any(path.parent.glob(f"{path.name}.*"))


@pytest.mark.parametrize("page", [*PAGES, "torchair-compat/README.md"])
def test_links_lead_somewhere(page: str) -> None:
    """A link to a file of the repository has a target."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    folder = (ROOT / page).parent
    report([f"{page}: {link}" for link in links if not (folder / link).exists()])


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page: str) -> None:
    """A path in backticks is a path in the repository, and so is the bare name of
    a source file."""
    path = re.compile(
        r"`((?:src|python|test|tools|include|docs|scripts|benchmark|examples|cmake"
        r"|torchair-compat)/[\w./-]+|\w+\.(?:py|cpp|h|td|fbs))`"
    )
    known = {file.name for file in tracked()}
    report(
        [
            f"{page}: {name}"
            for name in path.findall((ROOT / page).read_text())
            if not stands_for_a_file(name, known)
        ]
    )


def test_operators_page_is_current() -> None:
    script = ROOT / "scripts" / "operators.py"
    command = [sys.executable, str(script), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def examples() -> list[str]:
    return re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )


@pytest.mark.parametrize("number", range(len(examples())))
def test_readme_examples_run(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", examples()[number]]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
