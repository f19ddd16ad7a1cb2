"""Runs one linter over the files that git knows: lint.py NAME [--fix].

clang-tidy is slow. So it checks only the C++ files whose code differs from the base,
and remembers the files that passed. The base is ANABRANCH_TIDY_BASE, else the commit
where this branch left main, else the last commit."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import captured

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
PYTHON_DIRS = [
    "python",
    "scripts",
    "cmake",
    "benchmark",
    "examples",
    "test",
    "torchair-compat",
    "anabranch-vllm",
]
CPP = ("*.cpp", "*.h", "*.c")


def git(*arguments: str) -> list[str]:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def tracked(*patterns: str) -> list[str]:
    """Files under version control, and new ones that git does not ignore."""
    names = git("ls-files", "--cached", "--others", "--exclude-standard", *patterns)
    return sorted(name for name in set(names) if (ROOT / name).exists())


def call(*command: str) -> int:
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def clang_format(fix: bool) -> int:
    files = tracked(*CPP)
    mode = ["-i"] if fix else ["--dry-run", "-Werror"]
    return call("clang-format-19", *mode, *files) if files else 0


def tidy_base() -> str:
    named = os.environ.get("ANABRANCH_TIDY_BASE")
    if named:
        return named
    head = git("rev-parse", "HEAD")
    fork = git("merge-base", "HEAD", "origin/main")
    return fork[0] if fork and fork != head else "HEAD~1"


def files_of(entry: dict[str, str]) -> list[dict[str, str]]:
    """The compile commands of the files that a unit of the build includes."""
    if "/generated/units/" not in entry["file"]:
        return [entry]
    names = re.findall(r'#include "(.+)"', Path(entry["file"]).read_text())
    bases = (ROOT / "src", ROOT / "python" / "bindings")
    files = [str(b / name) for name in names for b in bases if (b / name).exists()]
    command = entry["command"]
    return [
        {**entry, "file": file, "command": command.replace(entry["file"], file)}
        for file in files
    ]


def commands_of_files(folder: Path) -> set[str]:
    """Writes the compile commands of single files without the precompiled header, so
    that an include which a file lacks is an error. Returns the files of the build."""
    built = json.loads((ROOT / "build" / "compile_commands.json").read_text())
    alone = [entry for unit in built for entry in files_of(unit)]
    for entry in alone:
        entry["command"] = re.sub(r"-include-pch \S+", "", entry["command"])
    (folder / "compile_commands.json").write_text(json.dumps(alone))
    return {os.path.relpath(entry["file"], ROOT) for entry in alone}


def changed_code(base: str) -> list[str]:
    """C++ files that differ from the base in more than lines of comments."""
    only_code = ("--numstat", "--no-renames", r"-I^[ \t]*//")
    counts = git("diff", *only_code, base, "--", "*.cpp")
    return [line.split("\t")[2] for line in counts]


def mark_of(name: str, clean: Path) -> Path:
    """The file that exists if the source, as it is now, passed the checks."""
    text = (ROOT / name).read_bytes() + (ROOT / ".clang-tidy").read_bytes()
    return clean / hashlib.sha256(name.encode() + text).hexdigest()


def clang_tidy(fix: bool) -> int:
    base = tidy_base()
    changed = set(changed_code(base))
    changed |= set(git("ls-files", "--others", "--exclude-standard", "*.cpp"))
    clean = ROOT / ".cache" / "clang-tidy"
    clean.mkdir(parents=True, exist_ok=True)
    # Examples are built apart, as a user builds them.
    built = commands_of_files(clean)
    names = [n for n in sorted(changed & built) if (ROOT / n).exists()]
    if not fix:
        names = [n for n in names if not mark_of(n, clean).exists()]
    extra = ["--fix"] if fix else []
    command = ["clang-tidy-19", "-p", str(clean), "--quiet", *extra]

    def passes(name: str) -> bool:
        done = captured.run([*command, name])
        print(f"clang-tidy {name}\n{done.stdout}", end="", flush=True)
        if done.returncode == 0:
            mark_of(name, clean).touch()
        return done.returncode == 0

    # Two fixes of one header would meet in it.
    with ThreadPoolExecutor(1 if fix else 2) as pool:
        return 0 if all(list(pool.map(passes, names))) else 1


def ruff(fix: bool) -> int:
    names = [name for name in PYTHON_DIRS if (ROOT / name).exists()]
    check = call(str(BIN / "ruff"), "check", *(["--fix"] if fix else []), *names)
    style = call(
        str(BIN / "ruff"), "format", "-q", *([] if fix else ["--diff"]), *names
    )
    return check or style


def mypy(fix: bool) -> int:
    """Runs mypy on each folder alone: scripts in different folders may have the same
    name."""
    status = 0
    for name in (
        "python/anabranch",
        "python/anabranch_runtime",
        "scripts",
        "benchmark",
        "examples",
        "torchair-compat/npugraph_ex",
        "torchair-compat/torchair",
        "anabranch-vllm/anabranch_vllm",
    ):
        if tracked(f"{name}/*.py"):
            status |= call(str(BIN / "mypy"), name)
    return status


LINTERS = {
    "clang-format": clang_format,
    "clang-tidy": clang_tidy,
    "ruff": ruff,
    "mypy": mypy,
}


def main() -> int:
    arguments = [a for a in sys.argv[1:] if a != "--fix"]
    fix = "--fix" in sys.argv
    names = arguments or [n for n in LINTERS if not (fix and n == "clang-tidy")]
    return max(LINTERS[name](fix) for name in names)


if __name__ == "__main__":
    sys.exit(main())
