"""Runs PyTorch's OpInfo database against the compiler and prints, for each dtype, how
many operators ran in Anabranch's kernels.

    run_opinfo.py [--dtypes f32,i64] [--chunk 1/10] [--samples 16] [--dynamic]
                  [--grad | --in-place | --out] [--match REGEX] [--json FILE] [--again]
                  [--cpu avx2]

`--grad` also compares the gradients of the samples. `--in-place` calls the methods that
write into their tensor; `--out` writes into given tensors. Every operator runs in a
forked process, so that a crash is a failure of that operator alone. FILE is written
after every operator, and operators that it has are not tried again; with --again, those
that failed are. `--cpu` compiles for a processor with fewer instructions than this
one has: avx2, avx512, avx512vnni, avx512bf16."""

from __future__ import annotations

import argparse
import collections
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

sys.path.insert(
    0, str(Path(__file__).resolve().parent.parent / "test" / "python" / "support")
)

import opinfo
import other_cpu
import torch
from forked import in_child

SECONDS = 180  # after which an operator counts as hanging


def attempt(operator: Any, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The outcome, from a forked process."""

    def tell(pipe: TextIO) -> None:
        try:
            dtype, form = opinfo.DTYPES[name], options.form
            found = opinfo.check(
                operator, dtype, options.samples, options.dynamic, form
            )
            outcome = {
                "samples": found.samples,
                "failures": found.failures,
                "known": found.known,
                "fallbacks": sorted(found.fallbacks),
                "where": found.where,
            }
        except BaseException as error:  # noqa: BLE001 - it is the result
            outcome = failure(f"{type(error).__name__}: {error}")
        json.dump(outcome, pipe)

    said, ended = in_child(tell, SECONDS)
    return failure(ended) if ended else json.loads(said)


def failure(reason: str) -> dict[str, Any]:
    return {
        "samples": 1,
        "failures": [reason],
        "known": [],
        "fallbacks": [],
        "where": "fallback",
    }


def warm_up() -> None:
    """Imports and builds everything that each child would need."""
    torch.set_num_threads(1)  # a forked process has only the thread that forked
    torch.compile(lambda x: x.relu(), backend="aot_eager")(torch.ones(2))


def selected(options: argparse.Namespace, dtype: str) -> Iterator[Any]:
    chunk, chunks = (int(part) for part in options.chunk.split("/"))
    for number, operator in enumerate(opinfo.database()):
        if number % chunks != chunk - 1:
            continue
        if not re.search(options.match, opinfo.title(operator)):
            continue
        if opinfo.supports(operator, dtype, options.form):
            yield operator


def row_of(dtype: str, options: argparse.Namespace) -> str:
    """The row of the table: "f32 dynamic gradients avx2"."""
    words = [dtype, "dynamic" * options.dynamic, options.form, options.cpu]
    return " ".join(word for word in words if word not in ("", "function", "host"))


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Outcomes by "operator: row"."""
    kept: dict[str, Any] = {}
    if options.json and options.json.exists():
        kept = json.loads(options.json.read_text())
    outcomes: dict[str, Any] = {}
    for dtype in options.dtypes.split(","):
        row = row_of(dtype, options)
        for operator in selected(options, dtype):
            key = f"{opinfo.title(operator)}: {row}"
            outcome = kept.get(key)
            if outcome is None or (options.again and outcome["failures"]):
                outcome = attempt(operator, dtype, options)
            outcomes[key] = kept[key] = outcome
            if options.json:
                options.json.write_text(json.dumps(kept, indent=1))
            for word, found in (("FAILED", "failures"), ("known", "known")):
                if outcome[found]:
                    print(f"{word} {key}: {outcome[found][0]}", flush=True)
    return outcomes


def table(outcomes: dict[str, Any]) -> str:
    """Operators and samples by row, and by where they were computed."""
    columns = [*opinfo.PLACES.values(), "wrongly traced by PyTorch", "wrong"]
    counts: dict[str, Any] = collections.defaultdict(collections.Counter)
    samples: dict[str, Any] = collections.defaultdict(collections.Counter)
    for key, outcome in outcomes.items():
        if not outcome["samples"]:
            continue
        named = key.rpartition(": ")[2]
        place = opinfo.PLACES[outcome["where"]]
        if outcome["failures"]:
            place = columns[4]
        elif outcome["known"]:
            place = columns[3]
        for row in (named, "all"):
            counts[row][place] += 1
            samples[row][place] += outcome["samples"]
    lines = [f"| dtype | {' | '.join(columns)} |", "|---" * 6 + "|"]
    for row in sorted(counts, key=lambda row: row == "all"):
        cells = [f"{counts[row][c]} ({samples[row][c]})" for c in columns]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtypes", default=",".join(opinfo.DTYPES))
    parser.add_argument("--chunk", default="1/1")
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--dynamic", action="store_true")
    forms = parser.add_mutually_exclusive_group()
    for name, form in (("grad", "gradients"), ("in-place", "in-place"), ("out", "out")):
        forms.add_argument(
            f"--{name}",
            dest="form",
            action="store_const",
            const=form,
            default="function",
        )
    parser.add_argument("--cpu", default="host")
    parser.add_argument("--match", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    if unknown := set(options.dtypes.split(",")) - set(opinfo.DTYPES):
        parser.error(f"no dtype {', '.join(sorted(unknown))}")
    other_cpu.compile_for(options.cpu)
    warm_up()
    outcomes = run(options)
    print("Operators (samples):", table(outcomes), sep="\n", flush=True)
    return 1 if any(outcome["failures"] for outcome in outcomes.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
