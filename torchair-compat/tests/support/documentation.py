"""Runs the scripts of TorchAir's public documentation unchanged.

    documentation.py FOLDER --table SCRIPTS.md

FOLDER is a checkout of TorchAir's repository. No script is kept: the table has the
page, the number of the block in it, whether it runs, and its error."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

# The environment variable that names the folder.
VARIABLE = "TORCHAIR_DOCUMENTATION"
# lines of a script, at least: a shorter block shows an option and computes nothing
SHORTEST = 15
SECONDS = 900
WIDTH = 110  # of the page
_FOLDER = re.compile(r"(?<![\w.])/[\w./-]+")
_BLOCK = re.compile(
    r"^([ \t]*)```python[ \t]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL
)
_COMPILES = re.compile(
    r"torch\.compile\(|cache_compile\(|dynamo_export\(|get_compiler\("
)
HEAD = """# The scripts of TorchAir's documentation

Which scripts of TorchAir's public documentation run unchanged on a host? A script is a block of Python of
15 lines or more that imports PyTorch and compiles something.
`torchair-compat/tests/support/documentation.py` writes this page, given a checkout of TorchAir's repository.
"""


@dataclasses.dataclass(frozen=True)
class Script:
    """A block of a page. `name` is the page below docs/zh with the block's number."""

    name: str
    text: str


def scripts(folder: Path) -> list[Script]:
    found = []
    pages = folder / "docs" / "zh"
    for path in sorted(pages.rglob("*.md")):
        blocks = _BLOCK.findall(path.read_text(encoding="utf-8"))
        for number, (indent, body) in enumerate(blocks):
            lines = [line.removeprefix(indent) for line in body.splitlines()]
            text = "\n".join(lines) + "\n"
            whole = "import torch" in text and _COMPILES.search(text)
            if whole and len(lines) >= SHORTEST:
                name = f"{path.relative_to(pages).as_posix()}#{number}"
                found.append(Script(name, text))
    return found


def run(script: Script) -> str:
    """Why the script does not run; "" if it does."""
    try:
        ast.parse(script.text)
    except SyntaxError as error:
        return f"the block is no Python: {error.msg}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(script.text, encoding="utf-8")
        environment = os.environ | {
            "ANABRANCH_CACHE_HOME": folder,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        try:
            ended = subprocess.run(
                [sys.executable, str(path)],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"it takes more than {SECONDS} s"
    if ended.returncode == 0:
        return ""
    errors = re.findall(
        r"^(?:\w+\.)*(\w+(?:Error|Exception)\b.*)$", ended.stderr, re.MULTILINE
    )
    return errors[-1][:140] if errors else f"exit status {ended.returncode}"


def table(results: list[tuple[str, str]]) -> str:
    """The page, from names and reasons. Names of folders are removed."""
    ran = sum(not reason for _, reason in results)
    rows = [f"| `{name}` | {'no' if why else 'yes'} |" for name, why in results]
    reasons = [
        textwrap.fill(
            f"- `{name}`: {_FOLDER.sub('FOLDER', why)}",
            WIDTH,
            subsequent_indent="  ",
            break_long_words=False,
        )
        for name, why in results
        if why
    ]
    count = f"{ran} of {len(results)} scripts run."
    lines = [HEAD, count, "", "| script | runs |", "|---|---|", *rows]
    if reasons:
        lines += ["", "## Why the others do not run", "", *reasons]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", type=Path, help="the page to write")
    parser.add_argument("--only", default="", help="part of the names of scripts")
    arguments = parser.parse_args()
    results = []
    for script in scripts(arguments.folder):
        if arguments.only in script.name:
            results.append((script.name, run(script)))
            print(*results[-1], sep=": ", flush=True)
    if arguments.table:
        arguments.table.write_text(table(results), encoding="utf-8")
    return int(any(reason for _, reason in results))


if __name__ == "__main__":
    sys.exit(main())
