"""Figures of a machine stand in src/machine; the other rooms read them there."""

import re

import pytest

from repository import ROOT, text, tracked

# A name that says what a machine is or does: sizes of caches, lines and pages, rates,
# times of the hardware. The words of a name begin with a capital or a digit ends them.
FIGURE = re.compile(
    r"""(?x) (?<![A-Za-z]) (?:
      line | page | cache | l[123] | tlb
    ) s? (?:Bytes|Size|Load|Count)\b
    | \b \w* (?: gflops | gigabytes | bandwidth | latency | GBs | flopRate | byteRate
      | moveRate | cyclesTo ) \w*
    | \b \w* (?-i: [a-z] Cycles ) \b
    | \b (?: wake | move ) (?: Time | Nanoseconds | Microseconds ) \b
    | \b \w* [a-z] (?: Line | Page | Cache ) (?: Bytes | Size ) \b""",
    re.IGNORECASE,
)
NUMBER = re.compile(r"\s*(?:=|\{)\s*(?:\w+\()?\(?-?\d")

# What asks a processor or the system for its figures.
QUESTION = re.compile(
    r"\b__get_cpuid\w*|\bxgetbv\b|_SC_LEVEL\w+|/sys/devices/system|/proc/cpuinfo"
)
ALIGNMENT = re.compile(r"\balignas\(\s*\d+")

# A number of bytes as large as a cache.
LARGE = re.compile(
    r"(?<![\w.])(?:\w+\(\d+\)|\d+u?l?)\s*<<\s*[1-4]0\b|\b\d+ \* 1024\b|\b1024 \* 1024\b"
)

# Large numbers that no machine decides, and why.
LIMITS = {
    "src/cache/Contents.cpp": "the piece in which files are compared",
    "src/cache/Contents.h": "the size from which on files are shared",
    "src/cache/Identity.cpp": "the longest note of an ELF file that is read",
    "src/cache/Slot.cpp": "the longest index, and the piece in which files are hashed",
    "src/cache/Store.cpp": "bytes on disk that the cache may take",
    "src/import/convolution/Winograd.cpp": "memory that a convolution may spend",
    "src/import/quantized/AffineIntegers.cpp": "a zero point, no bytes",
    "src/import/quantized/RoundedBytes.cpp": "a zero point, no bytes",
    "src/kernels/tileblocks/TileBlocking.cpp": "the work of a tile",
    "src/kernels/emit/Lanes.cpp": "bounds a product of multiples",
    "src/kernels/nests/TileGrid.cpp": "operations of a tile",
    "src/package/files/Files.cpp": "the piece in which a file is read",
    "src/package/files/Safetensors.cpp": "the format's own limit",
    "src/package/folder/CombineTargets.cpp": "the longest file of a package",
    "src/package/folder/Reader.cpp": "the longest file of a package",
    "src/package/folder/Staging.cpp": "the piece in which a file is copied",
    "src/package/folder/Writer.cpp": "the longest file of a package",
    "src/package/verify/ProgramVerifier.cpp": "entries of a table",
    "src/runtime/device/DeviceBuffer.cpp": "memory that a buffer may keep unused",
    "src/runtime/load/LoadedProgram.cpp": "constants that one part initialises",
    "src/schedule/fusion/Grouping.cpp": "how far folding a constant may grow it",
    "src/schedule/fusion/MergeGroups.cpp": "elements of a large kernel",
    "src/schedule/fusion/SplitReductions.cpp": "points that pay for a second kernel",
    "src/schedule/memory/PlanMemory.cpp": "memory that a plan may spend",
}


def code_lines(source: str) -> list[str]:
    """The lines without comments, which may name figures in words."""
    return [re.sub(r"//.*", "", line) for line in source.splitlines()]


def figures(source: str) -> list[str]:
    """The definitions of a machine's figures by a number."""
    return [
        line.strip()
        for line in code_lines(source)
        for name in FIGURE.finditer(line)
        if NUMBER.match(line, name.end())
    ]


def found(pattern: re.Pattern[str], source: str) -> list[str]:
    return [line.strip() for line in code_lines(source) if pattern.search(line)]


def other_sources() -> dict[str, str]:
    """The sources outside of src/machine, without the tests."""
    names = {str(path.relative_to(ROOT)): path for path in tracked("src/**")}
    return {
        name: text(path)
        for name, path in names.items()
        if path.suffix in (".cpp", ".h")
        and not name.startswith("src/machine/")
        and not re.search(r"(Test|Fuzz)\.cpp$", name)
    }


def report(problems: list[str]) -> None:
    assert not problems, "read these from src/machine:\n" + "\n".join(problems)


def test_no_figure_outside_of_the_machine() -> None:
    report(
        [
            f"{name}: {line}"
            for name, source in other_sources().items()
            for line in figures(source)
        ]
    )


@pytest.mark.parametrize("pattern", [QUESTION, ALIGNMENT], ids=["asks", "aligns"])
def test_others_ask_the_machine(pattern: re.Pattern[str]) -> None:
    report(
        [
            f"{name}: {line}"
            for name, source in other_sources().items()
            for line in found(pattern, source)
        ]
    )


def test_large_numbers_are_limits() -> None:
    lines = {name: found(LARGE, source) for name, source in other_sources().items()}
    report([f"{n}: {line}" for n in lines if n not in LIMITS for line in lines[n]])
    stale = {name for name in LIMITS if not lines.get(name)}
    assert not stale, "these files need no exception any more"


@pytest.mark.parametrize(
    "line",
    [
        "constexpr double flopRate = 50, byteRate = 10;",
        "constexpr int64_t lineBytes = 64;",
        "static constexpr int64_t pageBytes{4096};",
        "double gigabytes = 20, gigabytesAll = 20;",
        "constexpr double moveTime = 200, moveRate = 10;",
        "constexpr double cacheBytes = 512 << 10;",
        "constexpr int64_t cacheLineBytes = int64_t(64);",
        "double wakeMicroseconds = 10;",
        "constexpr double tileCycles = 220, copyCycles = 0.27;",
    ],
)
def test_a_figure_is_found(line: str) -> None:
    assert figures(line), line


@pytest.mark.parametrize(
    "line",
    [
        "int64_t bytesAhead = 0;  // lineBytes = 64",
        "constexpr int64_t panelsOfCache = 8;",
        "double cacheBytes = UsualCore::l2Bytes / 2;",
        "int line = 0;",
        "double cycles = 0;",
        "int64_t pageBytes = machine::pageBytes;",
    ],
)
def test_a_fraction_or_a_reading_is_none(line: str) -> None:
    assert not figures(line), line


def test_large_numbers_are_found() -> None:
    for line in ("int64_t(64) << 20", "512 * 1024", "128 << 10", "64u << 20"):
        assert LARGE.search(line), line
    for line in ("1 << bits", "uint64_t(1) << 63", "x * 1024.0"):
        assert not LARGE.search(line), line
