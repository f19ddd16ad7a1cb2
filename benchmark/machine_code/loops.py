"""The inner loops of a library of kernels: instructions, bytes that they load, spills."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from machine_code import flow

OBJDUMP = "llvm-objdump-19"
LABEL = ".Lloop"
# What llvm-objdump explains after an instruction of x86.
REMARK = re.compile(r"\s+# .*")
SYMBOL = re.compile(r"^[0-9a-f]+ <(.+)>:$")
LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S.*?)\s*$")
TARGET = re.compile(r"\b(?:0x)?([0-9a-f]+) <[^>]*>$")
BRANCH = re.compile(r"^(?:b(?:\.\w+)?|cbn?z|tbn?z|j\w+)\s")
# After these comes nothing, or what they jump to.
END = re.compile(r"^(?:(?:b|br|jmp\w*)\s|ret\w*|brk|udf|ud2)")
CALL = re.compile(r"^(?:blr?|call\w*)\s")
STACK = re.compile(r"\[sp\b|\(%rsp\b|\(%rbp\b")
# Bytes of an element of a vector register of 64-bit Arm, and of a register.
ELEMENTS = {"b": 1, "h": 2, "s": 4, "d": 8}
REGISTERS = {"q": 16, "d": 8, "s": 4, "h": 2, "b": 1, "x": 8, "w": 4}
WIDTHS = {"zmm": 64, "ymm": 32, "xmm": 16}


@dataclass(frozen=True)
class Instruction:
    address: int
    text: str

    @property
    def name(self) -> str:
        return self.text.split()[0]

    @property
    def operands(self) -> str:
        return self.text[len(self.name) :].strip()

    @property
    def branches_to(self) -> int | None:
        found = TARGET.search(self.text) if BRANCH.match(self.text) else None
        return int(found[1], 16) if found else None

    @property
    def uses_stack(self) -> bool:
        return bool(STACK.search(self.text))


@dataclass(frozen=True)
class Loop:
    """The instructions that a loop may run, without loops or calls in it."""

    function: str
    body: tuple[Instruction, ...]

    @property
    def spills(self) -> int:
        return sum(one.uses_stack for one in self.body)

    def assembly(self) -> str:
        """The text for an assembler. Branches go to the loop's begin."""
        lines = [
            one.text if one.branches_to is None else TARGET.sub(LABEL, one.text)
            for one in self.body
        ]
        return "\n".join([f"{LABEL}:", *lines, ""])


def parse(listing: str) -> dict[str, list[Instruction]]:
    """The instructions of each function of a disassembly."""
    functions: dict[str, list[Instruction]] = {}
    current: list[Instruction] = []
    for line in listing.splitlines():
        if symbol := SYMBOL.match(line):
            current = functions.setdefault(symbol[1], [])
        elif found := LINE.match(line):
            text = REMARK.sub("", found[2]).replace("\t", " ")
            current.append(Instruction(int(found[1], 16), text))
    return functions


def successors(body: list[Instruction]) -> list[list[int]]:
    """The places of the instructions that may run after each one."""
    places = {one.address: at for at, one in enumerate(body)}
    follow: list[list[int]] = []
    for at, one in enumerate(body):
        after = [at + 1] if at + 1 < len(body) and not END.match(one.text) else []
        target = places.get(one.branches_to) if one.branches_to is not None else None
        follow.append([*after, *([] if target is None else [target])])
    return follow


def loops_of(functions: dict[str, list[Instruction]]) -> Iterator[Loop]:
    for name, body in functions.items():
        for places in flow.innermost(successors(body)):
            inside = tuple(body[at] for at in places)
            if not any(CALL.match(one.text) for one in inside):
                yield Loop(name, inside)


def inner_loops(library: Path) -> list[Loop]:
    done = subprocess.run(
        [OBJDUMP, "-d", "--no-show-raw-insn", str(library)],
        capture_output=True,
        text=True,
        check=True,
    )
    return list(loops_of(parse(done.stdout)))


def _arm_bytes(one: Instruction, vector_bytes: int) -> int:
    if not one.name.startswith("ld"):
        return 0
    if listed := re.match(r"\{ ?([^}]*)\}(\[\d+\])?", one.operands):
        scalable = re.match(r"z\d+\.([bhsd])", listed[1])
        if scalable:
            lanes = 1 if one.name.startswith("ld1r") else vector_bytes
            return ELEMENTS[scalable[1]] if lanes == 1 else vector_bytes
        kinds = re.findall(r"v\d+\.(\d*)([bhsd])", listed[1])
        whole = not listed[2] and not one.name.endswith("r")
        return sum(
            ELEMENTS[kind] * (int(count) if whole and count else 1)
            for count, kind in kinds
        )
    narrow = re.match(r"ldr?s?([bh])\b|ldrs?([bh])\b", one.name)
    if narrow:
        return 1 if "b" in narrow.groups() else 2
    registers = one.operands.split("[")[0].replace(" ", "").strip(",").split(",")
    kind = registers[0][0]
    return (vector_bytes if kind == "z" else REGISTERS.get(kind, 0)) * len(registers)


def _x86_bytes(one: Instruction) -> int:
    source, memory, _ = one.operands.rpartition(")")
    after = one.operands[len(source) + 1 :]
    # The last operand of AT&T's order is the destination.
    if not memory or "%" not in after or one.name.startswith(("lea", "prefetch")):
        return 0
    if count := re.search(r"\{1to(\d+)\}", one.operands):
        return 64 // int(count[1])
    if one.name.startswith(("vbroadcastss", "vpbroadcastd")):
        return 4
    for name, width in WIDTHS.items():
        if f"%{name}" in after:
            return width // 2 if one.name.startswith(("vpmov", "vcvtph")) else width
    return 8


def bytes_loaded(one: Instruction, is_arm: bool, vector_bytes: int = 16) -> int:
    """Bytes that the instruction loads from memory; none if only from the stack."""
    if one.uses_stack:
        return 0
    return _arm_bytes(one, vector_bytes) if is_arm else _x86_bytes(one)
