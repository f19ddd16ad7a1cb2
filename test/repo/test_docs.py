"""Pages name files that exist, and the table of environment variables is complete."""

import functools
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import script_server

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


# Written by scripts, which quote names of others.
GENERATED = {
    "CHECKLIST.md",
    "NAMES.md",
    "OPERATORS.md",
    "SCRIPTS.md",
    "TESTS.md",
    "OPERATOR_TESTS.md",
    "operators.md",
}
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in tracked("*.md")
    if path.name not in GENERATED and path.parent.name != "results"
)


def stands_for_a_file(name: str, known: set[str]) -> bool:
    """`src/package/folder/Reader.h`, `src/package/files/Reader` for both of its files,
    `Reader.h` alone, or what the build makes."""
    if "/" not in name:
        return name in known
    path = ROOT / name
    made = f"/{name}" in (ROOT / ".gitignore").read_text().splitlines()
    return made or path.exists() or any(path.parent.glob(f"{path.name}.*"))


def without_blocks(page: Path) -> str:
    """The page without its blocks of code."""
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that a page names, and those of its headings, by GitHub's rule."""
    content = without_blocks(page)
    headings = re.findall(r"^#+ (.*)$", content, re.MULTILINE)
    named = re.findall(r'<a id="([^"]*)">', content)
    made = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}
    return {*named, *made}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """A link to a file of the repository has a target, and so has its anchor."""
    link = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
    problems = []
    for name, anchor in link.findall(without_blocks(ROOT / page)):
        target = (ROOT / page).parent / name if name else ROOT / page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            problems.append(f"{page}: {name}#{anchor}")
    report(problems)


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page: str) -> None:
    """A path in backticks is a path in the repository, and so is the bare name of
    a source file. Names in capitals (`FILE.py`) stand for a user's file."""
    path = re.compile(
        r"`((?:src|python|test|tools|include|docs|scripts|benchmark|examples|cmake"
        r"|torchair-compat|anabranch-vllm)/[\w./-]+|\w*[a-z]\w*\.(?:py|cpp|h|td|fbs))`"
    )
    known = {file.name for file in tracked()}
    report(
        [
            f"{page}: {name}"
            for name in path.findall((ROOT / page).read_text())
            if not stands_for_a_file(name, known)
        ]
    )


# Names that pages quote and that our code does not contain: PyTorch's, and metrics and
# folders whose names the code puts together.
ELSEWHERE = re.compile(
    r"rename_privateuse1_backend|backed_size_oblivious|mark_unbacked"
    r"|anabranch_\w+_total|_aclgraphcache|_gecache"
)


@pytest.mark.parametrize("page", PAGES)
def test_named_things_exist(page: str) -> None:
    """A name in backticks that looks like one of code (`plan_memory`, `PlanMemory`)
    occurs in the code."""
    quoted = " ".join(re.findall(r"`([^`\n]+)`", without_blocks(ROOT / page)))
    names = set(re.findall(r"\b(?:\w*[a-z]_\w+|[A-Za-z]+[a-z][A-Z]\w*)\b", quoted))
    missing = {name for name in names - words() if not ELSEWHERE.fullmatch(name)}
    assert not missing, page


@functools.cache
def words() -> set[str]:
    """All words of the repository's files, and of their names, but for pages."""
    files = [path for path in tracked() if path.suffix != ".md"]
    return {
        word
        for path in files
        for word in re.findall(r"\w+", f"{path.relative_to(ROOT)} {text(path)}")
    }


@pytest.mark.parametrize("script", ["operators.py", "npu_operators.py", "npu_names.py"])
def test_operators_page_is_current(script: str) -> None:
    command = [sys.executable, str(ROOT / "scripts" / script), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def examples() -> list[str]:
    return re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )


@pytest.mark.parametrize("number", range(len(examples())))
def test_readme_examples_run(number: int, tmp_path: Path) -> None:
    status, said = script_server.run(tmp_path, examples()[number])
    assert status == 0, said
