"""What a wheel must keep to run on any Linux with glibc 2.28: its ELF files need an old
system only, and its libraries export their own names alone."""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from wheel_support import run

# The newest versions of symbols in manylinux_2_28, and the libraries that it allows.
NEWEST = {"GLIBC": (2, 28), "GCC": (7, 0)}
SYSTEM = {
    *("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"),
    *("libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"),
}
OWN = {"libanabranch_runtime.so", "libanabranch_compiler.so"}
# Symbols without a version come from the interpreter or from our own libraries.
NEIGHBOURS = re.compile(r"_?Py|anabranch_|_Z\w*9anabranch")
OWN_NAMES = re.compile(
    r"anabranch|PyInit__C$|(typeinfo|typeinfo name|vtable) for anabranch::"
)


def programs(wheel: Path, folder: Path) -> Iterator[Path]:
    """The ELF files of a wheel, unpacked."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            if data[:4] == b"\x7fELF":
                path = folder / wheel.stem / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                yield path


def undefined(program: Path) -> Iterator[tuple[str, str]]:
    """(name, version) of the symbols that other libraries must define. A weak symbol
    without a version may be missing."""
    for line in run("readelf", "-W", "--dyn-syms", program).splitlines():
        words = line.split()
        if len(words) > 7 and words[6] == "UND":
            name, _, version = words[7].partition("@")
            if version or words[4] != "WEAK":
                yield name, version


def is_old_enough(version: str) -> bool:
    family, _, number = version.partition("_")
    parts = tuple(int(part) for part in number.split("."))
    return family in NEWEST and parts <= NEWEST[family]


def check_age(program: Path) -> None:
    dynamic = run("readelf", "-W", "-d", program)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    assert needed <= SYSTEM | OWN, program
    for name, version in undefined(program):
        known = is_old_enough(version) if version else NEIGHBOURS.match(name)
        assert known, (program, name, version)


def check_names(library: Path) -> None:
    """It does not interfere with another LLVM or libstdc++ in the process."""
    table = run("nm", "-D", "--defined-only", "--demangle", library)
    names = [line.split(maxsplit=2)[2] for line in table.splitlines()]
    assert [name for name in names if not OWN_NAMES.match(name)] == [], library


def check_pages(program: Path) -> None:
    """Systems of 64-bit Arm have pages of up to 64 KiB: parts with other rights are not in
    one page."""
    table = run("readelf", "-W", "-l", program)
    alignments = re.findall(r"^ +LOAD .* (0x\w+)$", table, re.MULTILINE)
    assert alignments, table
    assert all(int(each, 16) % (64 << 10) == 0 for each in alignments), (program, table)


def check_tag(wheel: Path) -> None:
    """auditwheel finds no newer system than the tag promises."""
    text = " ".join(run(sys.executable, "-m", "auditwheel", "show", wheel).split())
    machine = wheel.stem.split("_2_28_")[1]
    found = re.search(rf'platform tag: "manylinux_2_(\d+)_{machine}"', text)
    assert found, text
    assert int(found[1]) <= 28, text
