"""README.md lists every option as the code has it, and its example runs."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "torchair-compat" / "README.md"


def test_table_of_options_is_the_code_s() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "options.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_example_runs(capsys) -> None:
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert code
    exec(compile(code[1], "README.md", "exec"), {})  # noqa: S102
    assert "tensor(" in capsys.readouterr().out
