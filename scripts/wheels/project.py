"""The metadata of a distribution: pyproject.toml as the files of a dist-info folder."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@dataclass
class Distribution:
    """One of the two distributions: its table in pyproject.toml, over the shared
    fields."""

    name: str
    table: dict[str, Any]
    readme: Path
    licence: str  # the SPDX expression of all parts inside
    dependencies: list[str] = field(default_factory=list)

    @property
    def version(self) -> str:
        return PYPROJECT["project"]["version"]

    @property
    def stem(self) -> str:
        """The name as file names spell it."""
        return f"{self.name.replace('-', '_')}-{self.version}"

    @property
    def info(self) -> str:
        return f"{self.stem}.dist-info"


COMPILER = Distribution(
    name=PYPROJECT["project"]["name"],
    table=PYPROJECT["project"],
    readme=ROOT / "README.md",
    licence="Apache-2.0 AND Apache-2.0 WITH LLVM-exception AND BSD-3-Clause AND ISC"
    " AND MIT AND Zlib AND GPL-3.0-or-later WITH GCC-exception-3.1",
    dependencies=PYPROJECT["project"]["dependencies"],
)
RUNTIME = Distribution(
    name="anabranch-runtime",
    table=PYPROJECT["tool"]["anabranch"]["runtime"],
    readme=ROOT / "python" / "anabranch_runtime" / "README.md",
    licence="Apache-2.0 AND MIT AND GPL-3.0-or-later WITH GCC-exception-3.1",
    dependencies=PYPROJECT["tool"]["anabranch"]["runtime"]["dependencies"],
)


def metadata(distribution: Distribution, licence_files: list[str]) -> str:
    """The file METADATA, and PKG-INFO of an sdist."""
    shared = PYPROJECT["project"]
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {distribution.name}",
        f"Version: {distribution.version}",
        f"Summary: {distribution.table['description']}",
        f"Keywords: {','.join(shared['keywords'])}",
        f"License-Expression: {distribution.licence}",
        *(f"License-File: {name}" for name in licence_files),
        *(f"Classifier: {name}" for name in shared["classifiers"]),
        f"Requires-Python: {shared['requires-python']}",
        *(f"Requires-Dist: {name}" for name in distribution.dependencies),
        *(f"Project-URL: {k}, {v}" for k, v in shared.get("urls", {}).items()),
        "Description-Content-Type: text/markdown",
        "",
        distribution.readme.read_text(encoding="utf-8"),
    ]
    return "\n".join(lines)


def entry_points(distribution: Distribution) -> str:
    groups = {
        "console_scripts": distribution.table.get("scripts", {}),
        **distribution.table.get("entry-points", {}),
    }
    lines = []
    for group, names in groups.items():
        lines.append(f"[{group}]")
        lines += [f"{name} = {target}" for name, target in names.items()]
    return "\n".join(lines) + "\n"


def wheel_file(distribution: Distribution, tags: list[str]) -> str:
    lines = [
        "Wheel-Version: 1.0",
        f"Generator: {PYPROJECT['project']['name']}",
        "Root-Is-Purelib: false",
        *(f"Tag: {tag}" for tag in tags),
    ]
    return "\n".join(lines) + "\n"
