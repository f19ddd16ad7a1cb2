"""`make bench-kernels ARGS="--mca sapphirerapids"`: the model of a core with tile registers
and of its caches, against sums that a reader can do."""

import shutil
import sys
from collections.abc import Sequence

import pytest

from repository import ROOT

sys.path.insert(0, str(ROOT / "benchmark"))
from machine_code import analyser, trace
from machine_code.caches import Caches, Figures, Level
from machine_code.core import Cycles, simulate
from machine_code.timing import effects, timings_of
from machine_code.trace import Place, Trace

needs_mca = pytest.mark.skipif(
    not shutil.which(analyser.MCA), reason="llvm-mca is not installed"
)


def ran(
    lines: Sequence[str], times: int, step: int = 0, caches: Caches | None = None
) -> Cycles:
    """The second half of so many rounds. Each round's memory is `step` bytes on."""
    found = Trace([Place(4 * at, text, 4) for at, text in enumerate(lines)])
    for number in range(2 * times):
        if number % times == 0:
            found.begins.append(len(found.ran))
        for at in range(len(lines)):
            found.ran.append(at)
            found.addresses.append(1 << 20 | number * step)
            found.strides.append(64)
    timings = timings_of(found.places, "sapphirerapids", found.tile_rows)
    return simulate(found, timings, caches)


FOUR_SUMS = [f"tdpbf16ps %tmm6, %tmm4, %tmm{n}" for n in range(4)]


@needs_mca
@pytest.mark.parametrize(
    "lines, cycles",
    [
        # The unit begins a product every 16 cycles; a sum is ready after 52.
        (FOUR_SUMS, 64),
        (["tdpbssd %tmm6, %tmm4, %tmm0"], 52),
        # 16 lines, of which two arrive in a cycle.
        (["tileloadd (%rax,%rcx), %tmm4"], 8),
        (["tilestored %tmm4, (%rax,%rcx)"], 16),
        # Vectors have one unit for multiply-adds beside products.
        (["vfmadd231ps %zmm1, %zmm2, %zmm3"], 4),
        ([f"vfmadd231ps %zmm1, %zmm2, %zmm{n}" for n in range(3, 11)], 8),
        # A load takes a value from the store before it.
        (["addq 8(%rsp), %rax", "movq %rax, 8(%rsp)"], 11),
    ],
    ids=str,
)
def test_cycles_of_a_round(lines: list[str], cycles: int) -> None:
    assert ran(lines, 200).cycles / 200 == pytest.approx(cycles, rel=0.02)


@needs_mca
def test_epilogues_hide_behind_products_within_the_buffers() -> None:
    """48 multiply-adds in eight chains take 48 cycles of the 64 of four products."""
    vectors = [f"vfmadd231ps %zmm1, %zmm2, %zmm{3 + n % 8}" for n in range(48)]
    both = ran([*FOUR_SUMS, *vectors], 100)
    assert both.cycles / 100 == pytest.approx(64, rel=0.05)
    assert both.share(analyser.TILE_PRODUCT_CYCLES) == pytest.approx(1, rel=0.05)
    more = ran([*FOUR_SUMS, *vectors, *vectors], 100)
    assert more.cycles / 100 == pytest.approx(96, rel=0.05)


@needs_mca
def test_lines_come_as_fast_as_the_level_that_has_them() -> None:
    load = ["tileloadd (%rax,%rcx), %tmm4"]
    figures = Figures()
    for step, bytes_a_cycle in ((0, 128), (1024, figures.l3_bytes)):
        found = ran(load, 200, step, Caches(figures))
        assert 200 * 1024 / found.cycles == pytest.approx(bytes_a_cycle, rel=0.1)
    # A second level that holds all of it.
    caches = Caches(figures)
    for line in range(1 << 14, (1 << 14) + 400 * 16):
        caches.l2.put(line, 0)
    found = ran(load, 200, 1024, caches)
    assert 200 * 1024 / found.cycles == pytest.approx(figures.l2_bytes, rel=0.1)
    assert (found.from_l2, found.from_l3) == (200 * 16, 0)


def test_a_level_drops_the_line_that_was_used_least_recently() -> None:
    level = Level(1, 2)
    level.put(1, 5.0)
    level.put(2, 6.0)
    assert level.find(1) == 5.0
    level.put(3, 7.0)
    assert (level.find(1), level.find(2), level.find(3)) == (5.0, None, 7.0)
    # Lines that stream leave the others alone.
    level.put(4, 8.0, streams=True)
    level.put(5, 9.0, streams=True)
    assert level.find(3) is not None and level.find(4) is None


@pytest.mark.parametrize(
    "text, reads, writes, loads, stores",
    [
        ("tdpbf16ps %tmm6, %tmm4, %tmm0", "tmm6 tmm4 tmm0", "tmm0", 0, 0),
        ("vfmadd213ps %zmm15, %zmm5, %zmm17", "v15 v5 v17", "v17", 0, 0),
        ("vaddps -0x40(%rcx), %zmm13, %zmm14", "v13", "v14", 64, 0),
        ("vsubps %zmm15, %zmm11, %zmm15 {%k1}", "v15 v11 v15 k1", "v15", 0, 0),
        ("vmovups %ymm13, -0x20(%rdx)", "v13", "", 0, 32),
        ("vpmovzxwd (%rax,%r11,2), %zmm13", "", "v13", 32, 0),
        ("vbroadcastss (%rax), %zmm1", "", "v1", 4, 0),
        ("addq 0x38(%rsp), %r14", "r14", "r14 flags", 8, 0),
        ("addq $0x1, (%rax)", "", "flags", 8, 8),
        ("movl %r8d, (%rax)", "r8", "", 0, 8),
        ("leaq (%rcx,%rdx,2), %rax", "", "rax", 0, 0),
        ("cmpq %r15, %r8", "r15 r8", "flags", 0, 0),
        ("cmovlq %r8, %r12", "r8 r12 flags", "r12", 0, 0),
        ("jl 0x1da0 <k_tile+0x650>", "flags", "", 0, 0),
        ("xorl %r8d, %r8d", "", "r8 flags", 0, 0),
        ("prefetcht1 0x40(%rax)", "", "", 0, 0),
    ],
)
def test_effects(text: str, reads: str, writes: str, loads: int, stores: int) -> None:
    found = effects(Place(0, text, 4))
    assert sorted(found.reads) == sorted(reads.split())
    assert sorted(found.writes) == sorted(writes.split())
    assert (found.loads, found.stores) == (loads, stores)


def test_places_of_a_disassembly_with_bytes() -> None:
    listing = """
0000000000001750 <k_tile>:
    1750: 55                            pushq   %rbp
    1751: c4 e2 7b 4b 44 88 20          tileloadd       0x20(%rax,%rcx,4), %tmm0
    1758: 62 f1 7c 48 28 05 00 00 00 00 vmovaps (%rip), %zmm0  # 0x2c0
"""
    functions = trace.places_of(listing)
    (body,) = functions.values()
    assert [(one.address, one.length) for one in body] == [
        *((0x1750, 1), (0x1751, 7), (0x1758, 10)),
    ]
    assert body[1].uses_tiles and not body[0].uses_tiles
    registers = (trace.ctypes.c_ulonglong * len(trace.ORDER))()
    registers[trace.ORDER.index("rax")] = 0x1000
    registers[trace.ORDER.index("rcx")] = 16
    compute = trace.addresser(body[1].text)
    assert compute is not None and compute(registers) == (0x1020, 64)
