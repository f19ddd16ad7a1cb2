"""What each instruction of a trace needs: registers, ports, cycles.

Figures are those of llvm-mca's model of the core. Of instructions on tile registers LLVM
has none; theirs are from Intel's Optimization Reference Manual (248966, the table of the
chapter on AMX)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from machine_code.analyser import TILE_PRODUCT_CYCLES, run_mca
from machine_code.loops import TARGET
from machine_code.trace import MEMORY, Place

GENERAL = {
    alias: whole
    for whole, aliases in {
        **{f"r{a}x": f"r{a}x e{a}x {a}x {a}l {a}h" for a in "abcd"},
        **{f"r{a}": f"r{a} e{a} {a} {a}l" for a in ("si", "di", "bp", "sp")},
        **{f"r{n}": f"r{n} r{n}d r{n}w r{n}b" for n in range(8, 16)},
    }.items()
    for alias in aliases.split()
}
REGISTER = re.compile(r"%(\w+)")
WIDTHS = {"z": 64, "y": 32, "x": 16}

# Cycles from operands to result. A load of a tile register reads a line for each row,
# two lines in a cycle.
TILE_PRODUCT_LATENCY = 52
TILE_LOAD_LATENCY, TILE_ZERO_LATENCY, TILE_CONFIG_LATENCY = 45, 16, 204
# The unit that multiplies tile registers, beside LLVM's ports.
TILES = "TMUL"
LOADS = ("SPRPort02", "SPRPort03")

# Instructions without a destination register, and those that read the old one.
NO_RESULT = re.compile(
    r"cmp|test|bt[qlw]?$|v?u?comis|ktest|kortest|prefetch|j|ret|nop|ud2"
)
READS_RESULT = re.compile(
    r"vf(n?m)(add|sub)|vpermi2|vpermt2|vpdp|vdpbf16|tdp|"
    r"(add|sub|adc|sbb|and|or|xor|inc|dec|neg|not|shl|shr|sar|rol|ror|cmov|sh[lr]d)"
)
READS_FLAGS = re.compile(r"(j(?!mp)|set|cmov|adc|sbb)")
WRITES_FLAGS = re.compile(
    r"(add|sub|adc|sbb|and|or|xor|inc|dec|neg|shl|shr|sar|cmp|test|bt|imul|"
    r"v?u?comis|ktest|kortest|popcnt|lzcnt|tzcnt)"
)
CLEARS = re.compile(r"(xor|sub|v?p?xor|vxorp)")


@dataclass(frozen=True)
class Timing:
    """`latency` is without the load; `uops` are for the reorder buffer; `ports` has the
    choices and the busy cycles of each micro-operation that computes."""

    name: str
    uops: int
    latency: float
    ports: tuple[tuple[tuple[str, ...], float], ...]
    reads: tuple[str, ...]
    address: tuple[str, ...]
    writes: tuple[str, ...]
    loads: int = 0  # bytes
    stores: int = 0
    fetches: bool = False  # a prefetch, into the cache that the name says
    of_tile: int | None = None  # the tile register that is loaded or stored

    @property
    def multiplies_tiles(self) -> bool:
        return self.name.startswith("tdp")


def canonical(register: str) -> str:
    if found := re.match(r"[xyz]mm(\d+)$", register):
        return f"v{found[1]}"
    return GENERAL.get(register, register)


def registers_of(text: str) -> list[str]:
    return [canonical(name) for name in REGISTER.findall(text) if name != "rip"]


def last_operand(operands: str) -> str:
    depth, start = 0, 0
    for at, letter in enumerate(operands):
        depth += letter in "(" and 1 or letter in ")" and -1 or 0
        if letter == "," and depth == 0:
            start = at + 1
    return operands[start:].strip()


def width_of(text: str, name: str) -> int:
    if count := re.search(r"\{1to(\d+)\}", text):
        return 64 // int(count[1])
    if name.startswith(("vbroadcastss", "vpbroadcastd")):
        return 4
    widths = [WIDTHS[kind] for kind in re.findall(r"%([xyz])mm\d", text)]
    if not widths:
        return 8
    narrows = name.startswith(("vpmov", "vcvtne", "vcvtph2"))
    return min(widths) // (1 if len(set(widths)) > 1 or not narrows else 2)


def effects(place: Place) -> Timing:
    """The registers and the memory of an instruction; its cycles are still zero."""
    name, text = place.name, place.text
    operands = re.sub(r"<[^>]*>", "", text[len(name) :]).strip()
    memory = MEMORY.search(operands)
    last = last_operand(operands)
    address = tuple(registers_of(memory[0])) if memory else ()
    others = registers_of(MEMORY.sub("", operands))
    to_memory = memory is not None and memory[0] in last
    has_result = not NO_RESULT.match(name) and not to_memory
    target = registers_of(MEMORY.sub("", last))
    writes = target[:1] if has_result and target else []
    merges = "{%k" in last and "{z}" not in last
    reads = list(others)
    three = operands.count("%") >= 3 and not name.startswith(("v", "t"))
    if writes and not ((READS_RESULT.match(name) and not three) or merges):
        reads.remove(writes[0])
    if CLEARS.match(name) and len(set(others)) == 1 and not memory:
        reads = []
    if READS_FLAGS.match(name):
        reads.append("flags")
    if WRITES_FLAGS.match(name):
        writes.append("flags")
    fetches = name.startswith("prefetch")
    reads_memory = bool(memory) and not name.startswith("lea") and not fetches
    stores = to_memory and not NO_RESULT.match(name)
    bytes_there = width_of(operands, name) if reads_memory else 0
    moves = name.startswith(("mov", "vmov", "vcvt", "vpmov", "vextract", "tile", "set"))
    return Timing(
        *(name, 1, 0, (), tuple(reads), address, tuple(writes)),
        loads=bytes_there if not stores or not moves else 0,
        stores=bytes_there if stores else 0,
        fetches=fetches,
    )


def tile_timing(place: Place, base: Timing, rows: Sequence[int]) -> Timing:
    registers = [int(n) for n in re.findall(r"%tmm(\d)", place.text)]
    if base.multiplies_tiles:
        return replace(
            base, latency=TILE_PRODUCT_LATENCY, ports=(((TILES,), TILE_PRODUCT_CYCLES),)
        )
    if place.name == "tilezero":
        return replace(base, latency=TILE_ZERO_LATENCY, reads=())
    if place.name == "ldtilecfg":
        return replace(base, latency=TILE_CONFIG_LATENCY, loads=64)
    if not registers:
        return base
    count = rows[registers[0]]
    return replace(
        base,
        uops=count + 1,
        latency=TILE_LOAD_LATENCY if base.loads else 0,
        of_tile=registers[0],
        loads=base.loads and 64,
        stores=base.stores and 64,
    )


def choices(usage: dict[str, float]) -> tuple[tuple[tuple[str, ...], float], ...]:
    """Micro-operations and the ports that each may take, from the share that each port
    has of all of them."""
    left = {port: share for port, share in usage.items() if share > 0.01}
    found = []
    while left:
        ports = tuple(sorted(left))
        share = min(left.values())
        found.append((ports, share * len(ports)))
        left = {p: rest for p in ports if (rest := left[p] - share) > 0.01}
    return tuple(found)


# llvm-mca then tells the ports of each instruction, and simulates nothing.
TABLES = "-instruction-tables"
STORE_PORTS = ("SPRPort04", "SPRPort07", "SPRPort08", "SPRPort09")
LOAD_PORTS = ("SPRPort02", "SPRPort03", "SPRPort11")


def timings_of(
    places: Sequence[Place], target: str, rows: Sequence[int]
) -> list[Timing]:
    """`rows` has those of each tile register."""
    texts = [TARGET.sub(".Lhere", one.text) for one in places]
    found = run_mca(target, "\n".join([".Lhere:", *texts, ""]), TABLES)
    views = found["InstructionInfoView"]["InstructionList"]
    usage: dict[int, dict[str, float]] = {}
    for one in found["ResourcePressureView"]["ResourcePressureInfo"]:
        port = found["resources"][one["ResourceIndex"]]
        usage.setdefault(one["InstructionIndex"], {})[port] = one["ResourceUsage"]
    return [
        tile_timing(place, effects(place), rows)
        if place.uses_tiles
        else with_figures(effects(place), views[at], usage.get(at, {}))
        for at, place in enumerate(places)
    ]


def with_figures(one: Timing, view: dict, usage: dict[str, float]) -> Timing:
    computing = {
        port: share
        for port, share in usage.items()
        if not (one.loads and port in LOAD_PORTS)
        and not (one.stores and port in STORE_PORTS)
    }
    to_vector = bool(one.writes) and one.writes[0].startswith("v")
    load = (7 if to_vector else 5) if one.loads else 0
    return replace(
        one,
        uops=view["NumMicroOpcodes"],
        latency=0 if one.stores else max(view["Latency"] - load, 0),
        ports=choices(computing),
    )
