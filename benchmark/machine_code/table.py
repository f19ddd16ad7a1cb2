"""The inner loop of each kernel on a processor that is not here.

The kernel is exported for the target. Of its inner loops the table has the one that
multiplies most in a cycle, or, of a kernel without products, loads most. Nothing is
measured: cycles are those of LLVM's model of the core."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import anabranch
from harness import Workload
from kernel_cases import KERNELS
from machine_code.analyser import TARGETS, Figures, analyse, peaks
from machine_code.loops import inner_loops

COMPUTED = Path(__file__).resolve().parent.parent / "results" / "computed"
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


def about(target: str) -> list[str]:
    rates = ", ".join(f"{dtype} {rate:.0f}" for dtype, rate in peaks(target).items())
    return [
        f"# Inner loops on {target}: computed, not measured",
        "",
        f'Written by `make bench-kernels ARGS="--mca {target}"`. Cycles are those of',
        "LLVM's scheduling model of the core (llvm-mca 19), with all loads from L1.",
        f"Peak, in multiply-adds a cycle: {rates}.",
        "A spill is an instruction of a loop that uses the stack.",
        "",
    ]


def shown(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write(target: str, names: Sequence[str], keep: bool) -> None:
    """Prints the table of these kernels, and keeps it if it has all of them."""
    lines = [*about(target), shown(HEADS), "|---" * len(HEADS) + "|"]
    print("\n".join(lines), flush=True)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            try:
                library = library_of(KERNELS[name].make(), target, folder)
                loops = [analyse(one, target) for one in inner_loops(library)]
            except RuntimeError as error:
                print(f"    {name}: {error}", file=sys.stderr)
                continue
        if loops:
            lines.append(shown(line(name, loops, target)))
            print(lines[-1], flush=True)
    if keep:
        COMPUTED.mkdir(exist_ok=True)
        (COMPUTED / f"{target}.md").write_text("\n".join([*lines, ""]))


def write_all(targets: Sequence[str], names: Sequence[str], keep: bool) -> None:
    unknown = [target for target in targets if target not in TARGETS]
    if unknown:
        sys.exit(
            f"LLVM models no core {', '.join(unknown)}; there are {', '.join(TARGETS)}"
        )
    for target in targets:
        write(target, names, keep)
