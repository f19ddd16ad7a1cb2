"""What tiles of a kernel run: each instruction, with the memory that it touches.

A process of its own calls the kernel, and this one takes it step by step. Instructions
on tile registers are skipped, since the processor here may lack them: the branches of a
kernel depend on no number. Operands are zeros."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from machine_code.loops import REMARK, SYMBOL, Instruction

PTRACE_CONT, PTRACE_STEP, PTRACE_GETREGS, PTRACE_SETREGS = 7, 9, 12, 13
# The order of the registers in the kernel's structure.
ORDER = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx"),
    *("rdx", "rsi", "rdi", "orig", "rip", "cs", "flags", "rsp", "ss", "fs_base"),
    *("gs_base", "ds", "es", "fs", "gs"),
)
RIP, RSP = ORDER.index("rip"), ORDER.index("rsp")
MEMORY = re.compile(
    r"(?P<disp>-?0x[0-9a-f]+)?\((?P<base>%\w+)?(?:,(?P<index>%\w+)(?:,(?P<scale>\d))?)?\)"
)
CALLER = Path(__file__).resolve().with_name("caller.py")
BREAKPOINT, MASK = 0xCC, 2**64 - 1
# Instructions of a tile: so many that it fills the caches itself, and a minute of this
# processor.
LONG, MOST = 300_000, 3_000_000
TILE_ROWS_AT, TILE_REGISTERS = 48, 8

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


@dataclass(frozen=True)
class Place(Instruction):
    """An instruction with the number of its bytes."""

    length: int

    @property
    def uses_tiles(self) -> bool:
        return self.name.startswith(("tile", "tdp", "ldtilecfg", "sttilecfg"))


@dataclass
class Trace:
    """Places in the order in which they ran. `addresses` has the first byte of the
    memory operand, `strides` the distance of the rows of a tile register, `begins` where
    each tile of the kernel begins."""

    places: list[Place]
    begins: list[int] = field(default_factory=list)
    ran: array = field(default_factory=lambda: array("I"))
    addresses: array = field(default_factory=lambda: array("Q"))
    strides: array = field(default_factory=lambda: array("q"))
    tile_rows: list[int] = field(default_factory=lambda: [16] * TILE_REGISTERS)


def places_of(listing: str) -> dict[str, list[Place]]:
    """The instructions of each function of a disassembly with raw bytes."""
    line_of = re.compile(r"^\s*([0-9a-f]+):((?: [0-9a-f]{2})+)\s*(\S.*?)?\s*$")
    functions: dict[str, list[Place]] = {}
    current: list[Place] = []
    for line in listing.splitlines():
        if symbol := SYMBOL.match(line):
            current = functions.setdefault(symbol[1], [])
        elif found := line_of.match(line):
            text = REMARK.sub("", found[3] or "").replace("\t", " ")
            address, length = int(found[1], 16), len(found[2].split())
            if text:
                current.append(Place(address, text, length))
            elif current:
                # A long instruction goes on in the next line.
                last = current.pop()
                current.append(Place(last.address, last.text, last.length + length))
    return functions


def kernels_of(functions: dict[str, list[Place]]) -> list[str]:
    return [name for name in functions if f"{name}_plan" in functions]


def addresser(text: str) -> Callable[[ctypes.Array], tuple[int, int]] | None:
    """Computes the address of the memory operand, and the distance of a tile register's
    rows. None if the instruction has no such operand."""
    found = MEMORY.search(text)
    if not found:
        return None
    place = {name: at for at, name in enumerate(ORDER)}
    disp = int(found["disp"] or "0", 16)
    base = place.get((found["base"] or "").lstrip("%"))
    index = place.get((found["index"] or "").lstrip("%"))
    scale = int(found["scale"] or 1)
    rows = text.startswith("tile")

    def compute(registers: ctypes.Array) -> tuple[int, int]:
        at = disp + (registers[base] if base is not None else 0)
        step = registers[index] * scale if index is not None else 0
        if rows:
            return at & MASK, ctypes.c_int64(step).value
        return (at + step) & MASK, 0

    return compute


def call(request: int, child: int, address: object, data: object) -> None:
    if libc.ptrace(request, child, address, data) == -1:
        raise RuntimeError(f"ptrace: {os.strerror(ctypes.get_errno())}")


def wait(child: int) -> None:
    _, status = os.waitpid(child, 0)
    if os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGTRAP:
        return
    if os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGILL:
        raise RuntimeError("this processor lacks an instruction of the kernel")
    raise RuntimeError(f"the traced kernel ended: {status}")


class Stepper:
    """A process that calls a kernel, and stops before its first instruction."""

    def __init__(self, process: subprocess.Popen, entry: int) -> None:
        self.child, self.entry = process.pid, entry
        self.memory = os.open(f"/proc/{self.child}/mem", os.O_RDWR)
        self.registers = (ctypes.c_ulonglong * len(ORDER))()
        os.waitpid(self.child, 0)

    def close(self) -> None:
        os.close(self.memory)

    def begin(self) -> None:
        """Runs to the kernel's next call."""
        first = self.read(self.entry, 1)
        self.write(self.entry, bytes([BREAKPOINT]))
        call(PTRACE_CONT, self.child, None, None)
        wait(self.child)
        self.write(self.entry, first)
        self.load()
        self.registers[RIP] = self.entry
        self.save()
        self.back = int.from_bytes(self.read(self.registers[RSP], 8), "little")

    def read(self, address: int, count: int) -> bytes:
        return os.pread(self.memory, count, address)

    def write(self, address: int, data: bytes) -> None:
        os.pwrite(self.memory, data, address)

    def load(self) -> None:
        call(PTRACE_GETREGS, self.child, None, ctypes.addressof(self.registers))

    def save(self) -> None:
        call(PTRACE_SETREGS, self.child, None, ctypes.addressof(self.registers))

    def step(self) -> None:
        call(PTRACE_STEP, self.child, None, None)
        wait(self.child)
        self.load()

    def skip(self, length: int) -> None:
        self.registers[RIP] += length
        self.save()


def follow(trace: Trace, stepper: Stepper, base: int) -> None:
    """Adds a call of the kernel."""
    at = {place.address + base: number for number, place in enumerate(trace.places)}
    addressers = [addresser(place.text) for place in trace.places]
    registers = stepper.registers
    trace.begins.append(len(trace.ran))
    stepper.begin()
    while registers[RIP] != stepper.back:
        number = at.get(registers[RIP])
        if number is None:
            # A function of another library.
            stepper.step()
            continue
        if len(trace.ran) - trace.begins[-1] > MOST:
            raise RuntimeError(f"a tile has more than {MOST} instructions")
        place, compute = trace.places[number], addressers[number]
        address, stride = compute(registers) if compute else (0, 0)
        trace.ran.append(number)
        trace.addresses.append(address)
        trace.strides.append(stride)
        if not place.uses_tiles:
            stepper.step()
            continue
        if place.name == "ldtilecfg":
            config = stepper.read(address + TILE_ROWS_AT, TILE_REGISTERS)
            trace.tile_rows = list(config)
        stepper.skip(place.length)


def traced(
    library: Path, functions: dict[str, list[Place]], name: str, tiles: int
) -> Trace:
    """The first tiles of a kernel without dynamic sizes, or all if it has fewer. A tile
    that is long is the last one."""
    trace = Trace([place for body in functions.values() for place in body])
    process = subprocess.Popen(
        [sys.executable, str(CALLER), str(library), name, str(tiles)],
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout
        told = process.stdout.readline()
        if not told:
            raise RuntimeError(f"{library} cannot be loaded")
        entry, count = json.loads(told)
        with contextlib.closing(Stepper(process, entry)) as stepper:
            for _ in range(count):
                follow(trace, stepper, entry - functions[name][0].address)
                if len(trace.ran) > LONG:
                    break
        return trace
    finally:
        process.kill()
        process.wait()
