"""Libraries that stand for CUDA's, so that PyTorch for 64-bit Arm starts without them.

PyPI's wheel of PyTorch for 64-bit Arm is linked against CUDA. A CPU runs none of it,
but the loader wants each library and each symbol. A function of a stub returns CUDA's
code for "no device", so PyTorch runs on the CPU."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

COMPILER = "aarch64-linux-gnu-gcc"
READELF = "readelf"
NO_DEVICE = 100  # cudaErrorNoDevice, and CUDA_ERROR_NO_DEVICE
NVIDIA = re.compile(r"lib(cu|nv|nccl)\w*\.so\.\d+$")
PYTHON = re.compile(r"_?Py")  # the program itself has these
NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
VERSION_FILE = re.compile(r"Version: \d+\s+File: (\S+)")
VERSION_NAME = re.compile(r"Name: (\S+)\s+Flags")
SYMBOL = re.compile(
    r"^\s*\d+: [0-9a-f]+\s+\S+ (?P<kind>FUNC|NOTYPE|OBJECT|TLS|IFUNC)\s+"
    r"(?P<bind>GLOBAL|WEAK|UNIQUE)\s+\S+\s+(?:\[.*\]\s+)?(?P<place>\S+) "
    r"(?P<name>[^@\s]+)(?:@+(?P<version>\S+))?"
)


@dataclass
class Library:
    """What a shared library asks the loader for."""

    needed: list[str]
    versions: dict[str, str]  # a version's name, and the file that has it
    wanted: dict[str, str]  # undefined symbols, and their versions
    defined: set[str]


@dataclass
class Stub:
    symbols: dict[str, list[str]] = field(default_factory=dict)  # by version

    def source(self) -> str:
        names = sorted(name for group in self.symbols.values() for name in group)
        return "".join(
            f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in names
        )

    def version_script(self) -> str:
        lines = (
            f"{version} {{ global: {'; '.join(sorted(names))}; }};\n"
            for version, names in self.symbols.items()
            if version
        )
        return "".join(lines)


def _lines(*options: str, path: Path) -> list[str]:
    words = [READELF, *options, "-W", str(path)]
    return subprocess.run(
        words, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def read(path: Path) -> Library:
    needed = [
        found[1] for one in _lines("-d", path=path) if (found := NEEDED.search(one))
    ]
    versions: dict[str, str] = {}
    file = ""
    for one in _lines("-V", path=path):
        if found := VERSION_FILE.search(one):
            file = found[1]
        elif found := VERSION_NAME.search(one):
            versions[found[1]] = file
    wanted: dict[str, str] = {}
    defined: set[str] = set()
    for one in _lines("--dyn-syms", path=path):
        if not (found := SYMBOL.match(one)):
            continue
        if found["place"] != "UND":
            defined.add(found["name"])
        elif found["bind"] == "GLOBAL":
            wanted[found["name"]] = found["version"] or ""
    return Library(needed, versions, wanted, defined)


def stubs_for(libraries: Sequence[Library]) -> dict[str, Stub]:
    """The stub of each library of NVIDIA. Symbols of the system and of CUDA have a
    version that names their library; NCCL's have none, so one stub has these."""
    names = sorted({n for one in libraries for n in one.needed if NVIDIA.match(n)})
    own = {name for one in libraries for name in one.defined}
    made = {name: Stub() for name in names}
    seen: set[str] = set()
    for one in libraries:
        for symbol, version in one.wanted.items():
            if symbol in seen or symbol in own or PYTHON.match(symbol):
                continue
            file = one.versions.get(version) if version else names[0]
            if file in made:
                seen.add(symbol)
                made[file].symbols.setdefault(version, []).append(symbol)
    return made


def write(folder: Path, stubs: dict[str, Stub]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, stub in stubs.items():
        source = folder / f"{name}.c"
        source.write_text(stub.source())
        words = [COMPILER, "-shared", "-nostdlib", "-fPIC", "-w", "-fno-builtin"]
        words += [f"-Wl,-soname,{name}", "-o", str(folder / name), str(source)]
        if script := stub.version_script():
            versions = folder / f"{name}.map"
            versions.write_text(script)
            words.append(f"-Wl,--version-script={versions}")
        subprocess.run(words, check=True)


def write_for(torch: Path, folder: Path) -> None:
    """Stubs of what the libraries in `torch` need and do not have."""
    stubs = stubs_for([read(path) for path in sorted(torch.glob("*.so*"))])
    write(folder, {n: one for n, one in stubs.items() if not (torch / n).exists()})
