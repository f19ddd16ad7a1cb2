"""The inner loop of each kernel on a processor that is not here, and whole tiles.

The kernel is exported for the target. Of its inner loops the table has the one that
multiplies most in a cycle, or, of a kernel without products, loads most. Nothing is
measured: cycles are those of LLVM's model of the core.

LLVM has no figures for tile registers. A kernel that uses them is in a second table, of
whole tiles: what they run (trace), on a model of the core and its caches (core)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

import anabranch
from harness import Workload
from kernel_cases import KERNELS
from machine_code.analyser import (
    TARGETS,
    TILE_PRODUCT_CYCLES,
    WITH_TILES,
    Figures,
    analyse,
    peaks,
)
from machine_code.caches import Caches
from machine_code.core import Cycles, simulate
from machine_code.loops import OBJDUMP, STACK, inner_loops
from machine_code.timing import timings_of
from machine_code.trace import Place, kernels_of, places_of, traced

COMPUTED = Path(__file__).resolve().parent.parent / "results" / "computed"
TILE_HEADS = (
    *(
        "kernel",
        "function",
        "products",
        "instructions a product",
        "of these on the stack",
    ),
    *(
        "cycles",
        "share of peak",
        "with caches",
        "share of peak",
        "bytes a cycle from L2",
    ),
    "from L3",
)
ONE_UNIT = (
    "LLVM's model has one unit for multiply-adds of 512 bits; the core has two, of which\n"
    "one is free beside products of tile registers."
)
# The last of these tiles counts. The others leave their operands in the caches.
TILES = 2
HEADS = (
    *("kernel", "function", "instructions", "cycles", "multiply-adds a cycle"),
    *("share of peak", "bytes a cycle", "spills", "of all loops"),
)


def library_of(work: Workload, target: str, folder: str) -> Path:
    package = Path(folder) / "kernel.anb"
    anabranch.export(work.function, package, work.arguments, targets=[target])
    return next(package.rglob("kernels.so"))


def hottest(loops: Sequence[Figures]) -> Figures:
    """The loop of a kernel's work. An epilogue multiplies less in a cycle than the
    product before it."""
    return max(loops, key=lambda one: (one.rate, one.loaded / one.cycles))


def line(name: str, loops: Sequence[Figures], target: str) -> list[str]:
    found = hottest(loops)
    peak = peaks(target).get(found.dtype)
    share = f"{found.dtype} {100 * found.rate / peak:.0f} %" if peak else ""
    return [
        *(f"`{name}`", found.function, str(found.instructions)),
        *(f"{found.cycles:.1f}", f"{found.rate:.1f}" if peak else "", share),
        *(f"{found.loaded / found.cycles:.1f}", str(found.spills)),
        str(sum(one.spills for one in loops)),
    ]


def about(target: str, arguments: str) -> list[str]:
    """The head of a page, made by a command with these arguments before the target."""
    command = f'$ make bench-kernels ARGS="{f"{arguments} --mca {target}".strip()}"'
    lines = textwrap.wrap(
        command, 100, subsequent_indent="    ", break_on_hyphens=False
    )
    shell = " \\\n".join(lines)
    title = f"# {target}: computed, not measured"
    return [title, "", "Written by", "", "```console", shell, "```"]


def about_loops(target: str) -> list[str]:
    rates = ", ".join(f"{dtype} {rate:.0f}" for dtype, rate in peaks(target).items())
    return [
        "",
        "## Inner loops",
        "",
        "Cycles are those of LLVM's scheduling model of the core (llvm-mca 19), with all loads",
        f"from L1. Peak, in multiply-adds a cycle: {rates}.",
        *([ONE_UNIT] if target in WITH_TILES else []),
        "A spill is an instruction of a loop that uses the stack.",
        "",
        shown(HEADS),
        "|---" * len(HEADS) + "|",
    ]


def kernel_of_tiles(functions: dict[str, list[Place]]) -> str | None:
    """The kernel that multiplies in tile registers, if there is one."""
    for name in kernels_of(functions):
        body = [*functions[name], *functions.get(f"{name}_tile", [])]
        if any(place.name.startswith("tdp") for place in body):
            return name
    return None


def listing_of(library: Path) -> dict[str, list[Place]]:
    done = subprocess.run(
        [OBJDUMP, "-d", str(library)], capture_output=True, text=True, check=True
    )
    return places_of(done.stdout)


def tile_line(name: str, library: Path, target: str) -> list[str]:
    """The cells of the table of whole tiles; none if the kernel has no tile registers."""
    functions = listing_of(library)
    kernel = kernel_of_tiles(functions)
    if kernel is None:
        return []
    trace = traced(library, functions, kernel, TILES)
    timings = timings_of(trace.places, target, trace.tile_rows)
    near, far = (simulate(trace, timings, c) for c in (None, Caches()))
    last = trace.ran[trace.begins[-1] :]
    stack = sum(bool(STACK.search(trace.places[at].text)) for at in last)
    return [
        *(f"`{name}`", kernel, str(near.products)),
        *(f"{count / near.products:.1f}" for count in (near.instructions, stack)),
        *(cell for one in (near, far) for cell in (f"{one.cycles:.0f}", share(one))),
        *(f"{64 * n / far.cycles:.1f}" for n in (far.from_l2, far.from_l3)),
    ]


def share(found: Cycles) -> str:
    return f"{100 * found.share(TILE_PRODUCT_CYCLES):.0f} %"


ABOUT_TILES = (
    "",
    "## Whole tiles of tile registers",
    "",
    "The second tile of each kernel (the first one if it is long), as one thread runs it:",
    "each instruction, in the order in which the kernel runs here. The core is",
    "[a model](../../machine_code/core.py). Ports, latencies and buffers are LLVM's. Of tile",
    "registers LLVM has no figures: a product begins every 16 cycles and takes 52, a load",
    "takes 45 and reads two lines in a cycle (Intel's Optimization Reference Manual, 248966).",
    "The first cycles have all loads from L1; the others have caches of 48 KiB and 2 MiB, and",
    "48 and 8 bytes a cycle from L2 and L3. The model has no pages, no prefetchers of the",
    "hardware and no wrong predictions of branches. Products of numbers that were just loaded",
    "are as fast as any. A load with the hint T1 is as fast as one without: the manual has one",
    "in 33 cycles, and a Xeon was measured at one in 19 from L2.",
    "",
)


def shown(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def lines_of(name: str, target: str) -> tuple[str, str]:
    """The kernel's line of the table of loops, and of that of tiles; one is empty."""
    with tempfile.TemporaryDirectory() as folder:
        library = library_of(KERNELS[name].make(), target, folder)
        if target in WITH_TILES and (cells := tile_line(name, library, target)):
            return "", shown(cells)
        loops = [analyse(one, target) for one in inner_loops(library)]
    return (shown(line(name, loops, target)) if loops else ""), ""


def write(target: str, names: Sequence[str], keep: str | None) -> None:
    """Prints the tables of these kernels. `keep` has the command's arguments before the
    target, if the page is to be kept."""
    loops: list[str] = []
    tiles: list[str] = []
    for name in names:
        try:
            loop, tile = lines_of(name, target)
        except RuntimeError as error:
            print(f"    {name}: {error}", file=sys.stderr)
            continue
        loops += [loop] if loop else []
        tiles += [tile] if tile else []
        print(loop or tile, flush=True)
    lines = about(target, keep or "")
    if loops:
        lines += [*about_loops(target), *loops]
    if tiles:
        lines += [
            *ABOUT_TILES,
            shown(TILE_HEADS),
            "|---" * len(TILE_HEADS) + "|",
            *tiles,
        ]
    print("\n".join(["", *lines]), flush=True)
    if keep is not None:
        COMPUTED.mkdir(exist_ok=True)
        (COMPUTED / f"{target}.md").write_text("\n".join([*lines, ""]))


def write_all(targets: Sequence[str], names: Sequence[str], keep: str | None) -> None:
    unknown = [target for target in targets if target not in TARGETS]
    if unknown:
        sys.exit(
            f"LLVM models no core {', '.join(unknown)}; there are {', '.join(TARGETS)}"
        )
    for target in targets:
        write(target, names, keep)
