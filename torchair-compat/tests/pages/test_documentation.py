"""Scripts of TorchAir's documentation run unchanged, if the environment names a checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import documentation

FOLDER = os.environ.get(documentation.VARIABLE, "")
SCRIPTS = documentation.scripts(Path(FOLDER)) if FOLDER else []
PAGE = Path(__file__).resolve().parents[2] / "SCRIPTS.md"

PAGES = {
    "a.md": """# A page

- a list

    ```python
    import torch
    compiled = torch.compile(abs)
    {more}
    ```
""",
}


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER, reason=f"{documentation.VARIABLE} names no folder")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_runs(script) -> None:
    known = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    reason = documentation.run(script)
    if reason and f"| `{script.name}` | no |" in known:
        pytest.xfail(reason)
    assert reason == ""


def pages(folder: Path, more: str) -> Path:
    below = folder / "docs" / "zh" / "part"
    below.mkdir(parents=True)
    text = PAGES["a.md"].replace("{more}", more)
    (below / "a.md").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        ("print(1)", ""),
        ("raise ValueError('what?')", "ValueError: what?"),
        ("raise SystemExit(3)", "exit status 3"),
        ("return return", "the block is no Python: invalid syntax"),
    ],
)
def test_blocks_are_found_and_run(last, reason, tmp_path) -> None:
    more = "\n    ".join(["x = 1"] * documentation.SHORTEST + [last])
    (script,) = documentation.scripts(pages(tmp_path, more))
    assert script.name == "part/a.md#0"
    assert documentation.run(script) == reason
    page = documentation.table([(script.name, reason), ("b|c", "")])
    assert f"{1 + (not reason)} of 2 scripts run." in page
    assert ("| no |" in page) == bool(reason)


def test_short_blocks_are_no_scripts(tmp_path) -> None:
    assert documentation.scripts(pages(tmp_path, "x = 1")) == []
