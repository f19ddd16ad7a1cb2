"""Writes libraries that have the symbols of glibc 2.28 and no code.

stubs.py FOLDER LIBRARY,... CLANG [OPTION...]

glibc keeps every version of a symbol that it ever had. The symbols of this
machine's glibc, less those that are newer, are therefore the symbols of the old
one. What is linked against the stubs runs wherever that glibc or a newer one is.

Before 2.34, functions of libc.so.6 were in libpthread, libdl and librt. A stub
of libc.so.6 has them too: the loader finds a symbol in any library that is
loaded, so what is linked needs all of the libraries by name.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

NEWEST = (2, 28)
SECTIONS = {
    "OBJECT": ('.section .data,"aw",@progbits', "@object"),
    "TLS": ('.section .tdata,"awT",@progbits', "@tls_object"),
}
CODE = ('.section .text,"ax",@progbits', "@function")


@dataclass
class Symbol:
    name: str
    version: tuple[int, ...]
    size: int
    kind: str


def newest_symbols(library: str) -> list[Symbol]:
    """Of each name the newest version that the old glibc has."""
    listing = subprocess.run(
        ["readelf", "-W", "--dyn-syms", library],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found: dict[str, Symbol] = {}
    row = re.compile(
        r"\d+: \w+\s+(\w+) (\w+)\s+\w+\s+\w+\s+(\d+) (\w+)@@?GLIBC_([\d.]+)"
    )
    for line in listing.splitlines():
        if match := row.search(line):
            size, kind, _, name, text = match.groups()
            version = tuple(int(part) for part in text.split("."))
            known = found.get(name)
            if version <= NEWEST and (not known or known.version < version):
                found[name] = Symbol(name, version, int(size, 0), kind)
    return [found[name] for name in sorted(found)]


def source(symbols: list[Symbol]) -> str:
    """Assembly: data has its size, for programs copy it."""
    lines = ['.section .note.GNU-stack,"",@progbits']
    for symbol in symbols:
        section, kind = SECTIONS.get(symbol.kind, CODE)
        size = symbol.size if symbol.kind in SECTIONS else 1
        lines += [
            section,
            f".globl {symbol.name}",
            f".type {symbol.name}, {kind}",
            f"{symbol.name}: .zero {size}",
            f".size {symbol.name}, {size}",
        ]
    return "\n".join(lines) + "\n"


def version_script(symbols: list[Symbol]) -> str:
    nodes: dict[tuple[int, ...], list[str]] = {}
    for symbol in symbols:
        nodes.setdefault(symbol.version, []).append(symbol.name)
    return "".join(
        f"GLIBC_{'.'.join(map(str, version))} {{ global: {'; '.join(names)}; }};\n"
        for version, names in sorted(nodes.items())
    )


def write_stub(name: str, compiler: list[str], folder: Path) -> None:
    command = [*compiler, f"-print-file-name={name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    symbols = newest_symbols(found.stdout.strip())
    if not symbols:
        raise SystemExit(f"stubs.py: no symbols of glibc in {found.stdout.strip()}")
    assembly, script = folder / f"{name}.s", folder / f"{name}.map"
    assembly.write_text(source(symbols))
    script.write_text(version_script(symbols))
    link = [*compiler, "-shared", "-nostdlib", "-fuse-ld=lld"]
    link += [
        f"-Wl,--soname={name}",
        f"-Wl,--version-script={script}",
        "-o",
        str(folder / name),
        str(assembly),
    ]
    subprocess.run(link, check=True)


def main() -> None:
    folder, names, compiler = Path(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        write_stub(name, compiler, folder)


if __name__ == "__main__":
    main()
