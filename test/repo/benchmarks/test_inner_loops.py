"""`make bench-kernels ARGS="--mca ..."`: inner loops of a disassembly, and their work."""

import shutil
import sys

import pytest

from repository import ROOT

sys.path.insert(0, str(ROOT / "benchmark"))
from machine_code import analyser, loops

ARM = """
kernels.so:     file format elf64-littleaarch64

0000000000010830 <k_block>:
   10830:      \tstp\td11, d10, [sp, #0x10]
   10834:      \tmov\tx9, xzr
   10838:      \tldp\tq8, q9, [x7], #0x20
   1083c:      \tld1r\t{ v12.4s }, [x11]
   10840:      \tsmmla\tv0.4s, v8.16b, v12.16b
   10844:      \tsmmla\tv1.4s, v9.16b, v12.16b
   10848:      \tadd\tx9, x9, #0x1
   1084c:      \tcmp\tx9, x10
   10850:      \tb.lt\t0x10838 <k_block+0x8>
   10854:      \tldr\tx10, [sp, #0x40]
   10858:      \tcbnz\tx10, 0x10834 <k_block+0x4>
   1085c:      \tret

0000000000010870 <k_tile>:
   10870:      \tldr\tq0, [sp, #0x20]
   10874:      \tfmla\tv1.4s, v0.4s, v2.s[1]
   10878:      \ttbnz\tw3, #0x0, 0x10870 <k_tile>
   1087c:      \tbl\t0x10830 <k_block>
   10880:      \tcbnz\tx3, 0x1087c <k_tile+0xc>
"""


# The block at 0x20 ends an outer loop: its inner loop is the one at 0x40.
ROTATED = """
0000000000000020 <k_tile>:
      20:      \tldr\tx8, [sp, #0x10]
      24:      \tb\t0x40 <k_tile+0x20>
      28:      \tadd\tx9, x9, #0x1
      2c:      \tb.lt\t0x20 <k_tile>
      30:      \tret
      40:      \tfmla\tv1.4s, v0.4s, v2.s[1]
      44:      \tb.lt\t0x40 <k_tile+0x20>
      48:      \tb\t0x28 <k_tile+0x8>
"""


# The outer loop begins at 0x20 and goes on at 0x40, where its inner loop stands.
ENTERED_ELSEWHERE = """
0000000000000010 <k_tile>:
      10:      \tmov\tx9, xzr
      14:      \tb\t0x2c <k_tile+0x1c>
      20:      \tadd\tx9, x9, #0x1
      24:      \tcmp\tx9, x10
      28:      \tb.ge\t0x50 <k_tile+0x40>
      2c:      \tldr\tx8, [sp, #0x10]
      30:      \tcmp\tx8, x9
      34:      \tb.ge\t0x40 <k_tile+0x30>
      38:      \tb\t0x20 <k_tile+0x10>
      40:      \tfmla\tv1.4s, v0.4s, v2.s[1]
      44:      \tb.lt\t0x40 <k_tile+0x30>
      48:      \tb\t0x20 <k_tile+0x10>
      50:      \tret
"""


def test_a_branch_to_an_inner_loop_elsewhere_belongs_to_the_outer_loop() -> None:
    (inner,) = loops.loops_of(loops.parse(ENTERED_ELSEWHERE))
    assert [one.address for one in inner.body] == [0x40, 0x44]


# What the loop at 0x10 does in rare cases stands behind the function's end.
PART_ELSEWHERE = """
0000000000000010 <k_tile>:
      10:      \tldr\tq0, [x1]
      14:      \tcbz\tx2, 0x30 <k_tile+0x20>
      18:      \tfmla\tv1.4s, v0.4s, v2.s[1]
      1c:      \tb.lt\t0x10 <k_tile>
      20:      \tret
      30:      \tldr\tq2, [sp, #0x20]
      34:      \tb\t0x18 <k_tile+0x8>
"""


def test_a_part_of_a_loop_elsewhere_counts() -> None:
    (inner,) = loops.loops_of(loops.parse(PART_ELSEWHERE))
    assert (len(inner.body), inner.spills) == (6, 1)


def test_an_outer_loop_around_a_block_elsewhere_does_not_count() -> None:
    (inner,) = loops.loops_of(loops.parse(ROTATED))
    assert (inner.body[0].address, inner.spills) == (0x40, 0)


@pytest.mark.skipif(not shutil.which(analyser.MCA), reason="llvm-mca is not installed")
@pytest.mark.parametrize(
    "neon, sve",
    [
        ("fmla v0.4s, v1.4s, v2.4s", "fmla z0.s, p0/m, z1.s, z2.s"),
        ("smmla v0.4s, v1.16b, v2.16b", "smmla z0.s, z1.b, z2.b"),
        ("bfmmla v0.4s, v1.8h, v2.8h", "bfmmla z0.s, z1.h, z2.h"),
    ],
)
def test_longer_vectors_of_neoverse_v1_multiply_no_faster(neon: str, sve: str) -> None:
    """Kernels keep vectors of 128 bits on a core with SVE."""

    def rate(text: str) -> float:
        view = analyser.run_mca("neoverse-v1", text)["InstructionInfoView"]
        cycles = view["InstructionList"][0]["RThroughput"]
        return analyser.multiply_adds(text, vector_bytes=32)[1] / cycles

    assert rate(sve) == rate(neon)


def found() -> list[loops.Loop]:
    return list(loops.loops_of(loops.parse(ARM)))


def test_only_innermost_loops_without_calls_count() -> None:
    block, tile = found()
    assert (block.function, len(block.body), block.spills) == ("k_block", 7, 0)
    assert (tile.function, len(tile.body), tile.spills) == ("k_tile", 3, 1)
    assert block.assembly().endswith("b.lt .Lloop\n")


def test_work_of_a_loop() -> None:
    block, tile = found()
    assert analyser.work_of(block.body, 16) == ("int8", 64)
    assert analyser.work_of(tile.body, 16) == ("f32", 4)
    assert sum(loops.bytes_loaded(one, True) for one in block.body) == 32 + 4


@pytest.mark.parametrize(
    "text, wanted",
    {
        "fmla z0.s, p0/m, z1.s, z2.s": ("f32", 8),
        "bfmmla v0.4s, v1.8h, v2.8h": ("bf16", 16),
        "vfmadd231ps (%rax), %zmm1, %zmm2": ("f32", 16),
        "vpdpbusd %ymm0, %ymm1, %ymm2": ("int8", 32),
        "vaddps %zmm0, %zmm1, %zmm2": ("", 0),
    }.items(),
)
def test_multiply_adds(text: str, wanted: tuple[str, int]) -> None:
    assert analyser.multiply_adds(text, vector_bytes=32) == wanted


@pytest.mark.parametrize(
    "text, wanted",
    {
        "ldr q0, [x1]": 16,
        "ldp q0, q1, [x1, #0x20]": 32,
        "ld1 { v0.d }[1], [x1]": 8,
        "ld1 { v0.4s, v1.4s }, [x1]": 32,
        "ld1rw { z0.s }, p0/z, [x1]": 4,
        "ld1w { z0.s }, p0/z, [x1]": 32,
        "ldr z0, [x1]": 32,
        "ldrb w1, [x2]": 1,
        "prfm pldl1keep, [x1]": 0,
        "str q0, [x1]": 0,
        "ldr q0, [sp, #0x10]": 0,
    }.items(),
)
def test_bytes_of_arm(text: str, wanted: int) -> None:
    assert loops.bytes_loaded(loops.Instruction(0, text), True, 32) == wanted


@pytest.mark.parametrize(
    "text, wanted",
    {
        "vmovups 0x40(%rax,%rcx), %zmm0": 64,
        "vmovups %zmm0, 0x40(%rax)": 0,
        "vfmadd231ps (%rdi){1to16}, %zmm1, %zmm2": 4,
        "vbroadcastss (%rdi), %zmm2": 4,
        "movq (%rdi), %rax": 8,
        "leaq (%rdi,%rax), %rcx": 0,
        "prefetcht0 (%rdi)": 0,
    }.items(),
)
def test_bytes_of_x86(text: str, wanted: int) -> None:
    assert loops.bytes_loaded(loops.Instruction(0, text), False) == wanted


def test_remarks_of_a_disassembly_are_no_operands() -> None:
    listing = """
0000000000000010 <k_tile>:
      10:      \tvfmadd231ps\t-0xc0(%rdx), %zmm4, %zmm0 # zmm0 = (zmm4 * mem) + zmm0
"""
    (one,) = loops.parse(listing)["k_tile"]
    assert one.text == "vfmadd231ps -0xc0(%rdx), %zmm4, %zmm0"
    assert loops.bytes_loaded(one, False) == 64


@pytest.mark.skipif(not shutil.which(analyser.MCA), reason="llvm-mca is not installed")
def test_cycles_by_the_model_of_a_core() -> None:
    assert analyser.peaks("neoverse-v1")["int8"] == 128
    assert analyser.peaks("neoverse-n1") == {"f32": 8, "f16": 16, "int8": 32, "f64": 4}
    # Each sum waits for the one before it.
    assert analyser.analyse(found()[0], "neoverse-v1").cycles >= 1
