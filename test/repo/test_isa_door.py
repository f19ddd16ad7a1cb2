"""Instructions of a processor are named behind one door, src/native/isa."""

import re
from pathlib import Path

import pytest

from repository import ROOT, text, tracked

SRC = ROOT / "src"
# The rooms that compile for a processor. The others run on one.
COMPILER = ("ir", "import", "analysis", "schedule", "native", "kernels", "pipeline")
SETS = "src/native/isa/"

# What only an instruction set may name: intrinsics, dialects and triples of a
# processor, and features as LLVM or a flag spells them.
FORBIDDEN = re.compile(
    r"""llvm\.x86|llvm\.aarch64|\bamx::|\bx86vector::|\barm_\w+::
    |x86_64|x86-64|aarch64
    |\b(?:has)?[aA]vx\w*|\bf16c\b|\bvnni\w*|\bamx(?:-\w+|Int8|Bf16|BF16|Tile)\b
    |\bfullfp16\b|\bdotprod\b|\bi8mm\b""",
    re.VERBOSE,
)

# What kernels may know of the room below.
DOOR = {
    "native/Compile.h",
    "native/isa/Isa.h",
    "native/isa/Tiles.h",
    "native/math/NormalPower.h",
    "native/narrow/ExpandBF16.h",
    "native/target/Target.h",
}


def without_comments(source: str) -> str:
    """The source with its comments and includes blanked, line by line."""
    source = re.sub(r"//[^\n]*|^\s*#\s*include[^\n]*", "", source, flags=re.MULTILINE)
    return re.sub(
        r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), source, flags=re.DOTALL
    )


def named(source: str) -> list[str]:
    """The words of a processor in a source."""
    return [found[0] for found in FORBIDDEN.finditer(without_comments(source))]


def sources(*rooms: str) -> list[Path]:
    folders = tuple(str(SRC / room) + "/" for room in rooms)
    return [
        path
        for path in tracked("src/*.cpp", "src/*.h", "src/*.td")
        if str(path).startswith(folders) and "Test." not in path.name
    ]


@pytest.mark.parametrize("room", COMPILER)
def test_only_instruction_sets_name_instructions(room: str) -> None:
    problems = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in sources(room)
        if not re.match(SETS + r"\w+/", str(path.relative_to(ROOT)))
        for word in named(text(path))
    ]
    assert not problems, "\n".join(problems)


def test_the_portable_set_names_none() -> None:
    for path in sources("native/isa/portable"):
        assert not named(text(path)), path.name


def test_instructions_are_recognised() -> None:
    for code in (
        'call("llvm.x86.tilezero")',
        'triple = "x86_64-unknown-linux-gnu";',
        'cpu = "x86-64";',
        "if (target.avx512Vnni)",
        "cpu.hasAvx512",
        'has("amx-int8")',
        "b.create<amx::TileZeroOp>()",
    ):
        assert named(code), code
    for code in ("TileBlocking amx;", "// vpdpbusd of AVX-512", "chosen.usesTiles"):
        assert not named(code), code


def test_kernels_use_the_door() -> None:
    problems = []
    for path in sources("kernels"):
        for name in re.findall(r'#include "(native/[^"]+)"', text(path)):
            if name not in DOOR:
                problems.append(f"{path.relative_to(ROOT)} includes {name}")
    assert not problems, "\n".join(problems)
