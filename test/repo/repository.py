"""The files of the repository, for the tests about it."""

import subprocess
from pathlib import Path

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
