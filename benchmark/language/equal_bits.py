"""Compares language models at equal bits: Anabranch, llama.cpp and OpenVINO GenAI in turns.

equal_bits.py                                SmolLM2 and a made Llama, all cells
equal_bits.py --models 264 --types Q4_1 --threads 1 --prompts 512 --batches --rounds 5
                                             these cells alone
equal_bits.py --json benchmark/runs/equal.json
                                             keeps the record; then: results.py keep FILE
equal_bits.py --clock cpu --threads 1        CPU time, on a machine that does other work

All programs read the same GGUF file, which gguf_weights.py writes. Each is a process of its
own (token_engines.py), and they take turns in each cell; a figure is the median of the
rounds. "prompt 512" is tokens of a prompt a second, "decode behind 256" tokens of one
answer a second, "16 rows" of 16 answers together.

Q4_1 and Q8_0: llama.cpp rounds activations to 8 bits where it multiplies weights, and so
does "Anabranch, bytes". OpenVINO also computes everything else in bf16 on a CPU that has
instructions for it, and so does "Anabranch, bytes, bf16". "Anabranch" rounds nothing. BF16
and F32: every program computes in this type. OpenVINO keeps keys and values in 8 bits by
default, llama.cpp in F16, and Anabranch in the type of its activations.

The peers are packages of PyPI: `pip install llama-cpp-python openvino-genai`, which
compiles llama.cpp for this machine. They may be in an environment of their own with gguf:
--peer-python names its Python.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import gguf_weights
from token_engines import ENGINES, MARK

from record import Row, add_case, new_record, write
from results import RATES

ROUNDED = ("Q4_0", "Q4_1", "Q8_0")
NAMES = {"264": "Llama 264M", "1100": "Llama 1.1B"}


class Contender:
    """The process of a program. `error` says why it gives no figures."""

    def __init__(self, python: str, name: str, file: Path, threads: int, log: Any):
        command = [python, str(HERE / "token_engines.py"), name, str(file)]
        # Workers that wait for work must not take a core from the next contender.
        self.name, self.error, self.note = name, "", ""
        self._process = subprocess.Popen(
            [*command, "--threads", str(threads)],
            env=os.environ | {"OMP_WAIT_POLICY": "passive"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        start = self._row()
        self.versions: dict[str, str] = start.get("made", {})
        self.note = f"absent: {start['absent']}" if "absent" in start else ""
        self._broken = self.error
        self._cell: dict[str, Any] | None = None

    def prepare(self, cell: dict[str, Any], rounds: int) -> None:
        self.error = self._broken
        if not self.error and not self.note:
            self._tell(json.dumps(cell | {"turns": rounds}))
            self._row()

    def turn(self, is_last: bool, clock: str) -> float:
        """The seconds of the cell's work."""
        self._tell("go")
        found = self._row().get(clock, 0.0)
        if not is_last and not self.error:
            self._row()  # ready for the next one
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _row(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(MARK):
                row = json.loads(line.removeprefix(MARK))
                self.error = row.get("error", "")
                return row
        self.error = self._broken = "the process ended"
        return {}


def cells(given: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """What to measure, by its name."""
    found: dict[str, dict[str, Any]] = {
        f"prompt {tokens}": {"prompt": tokens} for tokens in given.prompts
    }
    for depth in given.depths:
        found[f"decode behind {depth}"] = {"rows": 1, "depth": depth}
    for rows in given.batches:
        name = f"{rows} rows behind {given.batch_depth}"
        found[name] = {"rows": rows, "depth": given.batch_depth}
    return found


def in_turns(
    contenders: list[Contender], cell: dict[str, Any], given: argparse.Namespace
) -> list[Row]:
    """The figures of one cell, in tokens a second."""
    for one in contenders:
        one.prepare(cell, given.rounds)
    tokens = cell["prompt"] if "prompt" in cell else cell["rows"]
    found: dict[str, list[float]] = {one.name: [] for one in contenders}
    for turn in range(given.rounds):
        for one in contenders:
            if not one.error and not one.note:
                seconds = one.turn(turn == given.rounds - 1, given.clock)
                if seconds:
                    found[one.name].append(tokens / seconds)
    return [row(one, found[one.name]) for one in contenders]


def row(one: Contender, rates: list[float]) -> Row:
    if one.note or one.error or not rates:
        return Row(one.name, note=one.note, error="" if one.note else one.error)
    middle = statistics.median(rates)
    return Row(one.name, middle, "tokens/s", min(rates), max(rates))


def measure(given: argparse.Namespace, folder: Path, log: Any) -> dict[str, Any]:
    record = new_record()
    record["page"], record["run"]["threads"] = RATES, max(given.threads)
    versions: dict[str, str] = {}
    for model in given.models:
        for kind in given.types:
            file = folder / f"{model}-{kind}.gguf"
            if not file.exists():
                gguf_weights.write(model, kind, file)
            for threads in given.threads:
                contenders = start(given, kind, file, threads, log)
                for one in contenders:
                    versions |= one.versions
                record["run"]["source"] = source(given, versions)
                of = f"{NAMES.get(model, model)}, {kind}, {threads} thread"
                for name, cell in cells(given).items():
                    what = f"{of}{'s' if threads > 1 else ''}, {name}"
                    rows = in_turns(contenders, cell, given)
                    add_case(record, case_name(what), what, rows)
                    print(line(what, rows), flush=True)
                    if given.json:  # what an interrupted run has, too
                        write(record, given.json)
                for one in contenders:
                    one.close()
    return record


def source(given: argparse.Namespace, versions: dict[str, str]) -> str:
    rounds = f"{given.rounds} rounds, {given.clock} time"
    programs = [f"{name} {version}" for name, version in sorted(versions.items())]
    return ", ".join(["benchmark/language/equal_bits.py", rounds, *programs])


def start(
    given: argparse.Namespace, kind: str, file: Path, threads: int, log: Any
) -> list[Contender]:
    asked = [name for name in ENGINES if name in given.programs]
    if kind not in ROUNDED:
        asked = [name for name in asked if "bytes" not in name]
    return [
        Contender(
            sys.executable if name.startswith("Anabranch") else given.peer_python,
            name,
            file,
            threads,
            log,
        )
        for name in asked
    ]


def case_name(what: str) -> str:
    return what.lower().replace(",", "").replace(" ", "-").replace("_", "")


def line(what: str, rows: list[Row]) -> str:
    figures = [
        f"{one.contender} {one.value:.4g}"
        if one.value
        else f"{one.contender}: {one.note or one.error}"
        for one in rows
    ]
    return f"{what:48} {'  '.join(figures)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", nargs="+", default=["SmolLM2", "264"])
    parser.add_argument(
        "--types",
        nargs="+",
        choices=gguf_weights.TYPES,
        default=["Q4_1", "Q8_0", "BF16", "F32"],
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--prompts", type=int, nargs="*", default=[46, 512, 2048])
    parser.add_argument("--depths", type=int, nargs="*", default=[256, 2048])
    parser.add_argument("--batches", type=int, nargs="*", default=[4, 16, 64])
    parser.add_argument("--batch-depth", type=int, default=256)
    parser.add_argument("--programs", nargs="+", choices=ENGINES, default=[*ENGINES])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--folder", type=Path, help="keeps the GGUF files here")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryFile("w+") as log:
        folder = given.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        record = measure(given, folder, log)
    if given.json:
        write(record, given.json)


if __name__ == "__main__":
    main()
