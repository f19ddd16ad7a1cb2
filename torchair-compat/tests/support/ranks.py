"""Scripts of several ranks that use torchair: gloo_ranks with more imports."""

from __future__ import annotations

from pathlib import Path

import gloo_ranks

MODULES = ("pytest", "torch_npu", "torchair")
IMPORTS = "".join(f"import {name}\n" for name in MODULES)


def run_ranks(folder: Path, script: str, ranks: int) -> list[str]:
    """Runs the script in each rank. Returns the output of each."""
    return gloo_ranks.run_ranks(folder, IMPORTS + script, ranks, modules=MODULES)
