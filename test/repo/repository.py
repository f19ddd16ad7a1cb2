"""Finds and reads the files of the repository, for the tests in this folder."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def tracked(*patterns: str) -> list[Path]:
    """Files under version control, and new ones that git does not ignore."""
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [ROOT / name for name in sorted(set(names)) if (ROOT / name).is_file()]


def text(path: Path) -> str:
    """The file's text; empty for a binary file."""
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


def script(name: str) -> ModuleType:
    """A file of scripts/, imported."""
    folder = ROOT / "scripts"
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # a script imports others from its folder
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look for it
    spec.loader.exec_module(module)
    return module
