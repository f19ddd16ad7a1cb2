"""The licences of the code that is linked into the wheels, from the packages that ship
it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from .project import COMPILER, ROOT, Distribution

# For each part: the Debian package whose copyright file has its licence.
DEBIAN = {
    "LLVM": "llvm-19-dev",
    "MLIR": "libmlir-19-dev",
    "lld": "liblld-19-dev",
    "FlatBuffers": "libflatbuffers-dev",
    "nlohmann-json": "nlohmann-json3-dev",
    "xxHash": "libxxhash-dev",
    "zstd": "libzstd-dev",
    "zlib": "zlib1g-dev",
    "libstdc++": "libstdc++-12-dev",
}
# The runtime has no compiler inside.
IN_RUNTIME = ("FlatBuffers", "nlohmann-json", "xxHash", "libstdc++")


def _debian_text(package: str) -> str:
    path = Path("/usr/share/doc") / package / "copyright"
    if not path.exists():
        raise SystemExit(f"wheels: {path} is missing: apt-get install {package}")
    return path.read_text(encoding="utf-8")


def _nanobind_texts() -> dict[str, str]:
    """The licence of nanobind, and that of the hash table inside it."""
    spec = importlib.util.find_spec("nanobind")
    if spec is None or spec.origin is None:
        raise SystemExit("wheels: nanobind is missing: pip install nanobind")
    folder = Path(spec.origin).parent
    infos = folder.parent.glob("nanobind-*.dist-info/**/LICENSE*")
    header = folder / "ext/robin_map/include/tsl/robin_map.h"
    text = header.read_text(encoding="utf-8")
    return {
        "nanobind": next(infos).read_text(encoding="utf-8"),
        "robin-map": text[text.index("/**") : text.index("*/") + 2] + "\n",
    }


def texts(distribution: Distribution) -> dict[str, str]:
    """The texts by the names of their files under `licenses`, the project's own first."""
    found = {"LICENSE": (ROOT / "LICENSE").read_text(encoding="utf-8")}
    names = DEBIAN if distribution is COMPILER else IN_RUNTIME
    for name in names:
        found[f"{name}.txt"] = _debian_text(DEBIAN[name])
    if distribution is COMPILER:
        for name, text in _nanobind_texts().items():
            found[f"{name}.txt"] = text
        d3 = ROOT / "python" / "anabranch" / "assets" / "vendor" / "d3.LICENSE"
        if d3.exists():
            found["d3.txt"] = d3.read_text(encoding="utf-8")
    return found
