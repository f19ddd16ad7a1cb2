"""A table of single kernels: Anabranch, the best peer, and the machine's limit.

kernel_table.py                   every kernel, on one thread: about half an hour
kernel_table.py NAME ...          only kernels whose names begin so
kernel_table.py --threads 1 2     each with one thread, and with two
kernel_table.py --list            the names of the kernels
kernel_table.py --compare OLD     also lists what became slower since that record; the
                                  exit status is 2 if anything did
kernel_table.py --mca TARGET ...  the kernels' inner loops on other processors, and whole
                                  tiles of tile registers: computed from models
                                  (machine_code/), not measured. The page of all kernels
                                  is kept; with --keep that of some

The limit of a kernel is the larger of two times: its arithmetic at the machine's best
rate, and its bytes at the machine's reading rate. Both rates are measured in the same
run. The record is one of `run.py`: `results.py keep` keeps it."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

import anabranch
import compare
import limits
from harness import BOUND, EXPORTED, KEEP_PAGES, steady
from kernel_cases import KERNELS, Kernel
from record import Row, add_case, cell, new_record, path_of, write

PEERS = ("eager", "inductor", "openvino", "onnxruntime")
SKIPPED = "absent: skipped, no kernel yet"
HEADS = ("kernel", "ours", "best peer", "", "peer / ours", "limit", "limit / ours")


def measure(kernel: Kernel, peaks: dict, seconds: float) -> list[Row]:
    rows = steady(
        kernel.make,
        (*PEERS, EXPORTED),
        "ms",
        seconds,
        kernel.tolerance,
    )
    ours = rows[-1]
    if kernel.lacking and "only PyTorch has" in ours.error:
        ours.note, ours.error = SKIPPED, ""
    return [
        *rows,
        limits.bound(peaks, kernel.multiply, kernel.flops, kernel.size, "ms"),
    ]


def run_apart(name: str, threads: int, peaks: dict, seconds: float) -> list[Row]:
    """Measures the kernel in a process of its own, since a kernel may crash."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        child = json.dumps([name, threads, peaks, seconds, out.name])
        done = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), "--child", child],
            env=os.environ | KEEP_PAGES | {"OMP_NUM_THREADS": str(threads)},
            capture_output=True,
            text=True,
            check=False,
        )
        written = Path(out.name).read_text()
    if done.returncode or not written:
        tail = done.stderr.strip().rsplit("\n", 1)[-1]
        return [Row(EXPORTED, error=f"process ended: {done.returncode} {tail}")]
    return [Row(**row) for row in json.loads(written)]


def run_child(text: str) -> None:
    name, threads, peaks, seconds, out = json.loads(text)
    torch.set_num_threads(threads)
    rows = measure(KERNELS[name], peaks, seconds)
    Path(out).write_text(json.dumps([asdict(row) for row in rows]))


def summary(name: str, values: Sequence[Row]) -> list[str]:
    """The cells of a line of the table."""
    rows = {row.contender: row for row in values}
    ours, limit = rows.get(EXPORTED), rows.get(BOUND)
    peers = [rows[n] for n in PEERS if n in rows and rows[n].value]
    best = min(peers, key=lambda row: row.value, default=None)
    mine = ours.value if ours else 0.0

    def ratio(row: Row | None) -> str:
        return f"{row.value / mine:.2f}" if row and mine else ""

    skipped = ours is not None and ours.note == SKIPPED
    return [
        name,
        "no kernel yet" if skipped else cell(ours),
        cell(best),
        best.contender if best else "",
        ratio(best),
        cell(limit),
        ratio(limit),
    ]


def about(peaks: dict) -> str:
    rates = {k: v for k, v in peaks.items() if k not in ("threads", "read_gbs")}
    text = ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items() if rate)
    reads = ", ".join(
        f"{int(size) >> 10} KiB {rate:.0f}" for size, rate in peaks["read_gbs"].items()
    )
    return f"{peaks['threads']} threads: GFLOP/s {text}; reading, GB/s: {reads}"


def choose(names: list[str]) -> list[str]:
    chosen = [n for n in KERNELS if not names or n.startswith(tuple(names))]
    unknown = [n for n in names if not any(k.startswith(n) for k in KERNELS)]
    if unknown:
        sys.exit(f"no kernel begins with {', '.join(unknown)}; --list names them")
    return chosen


def record_all(given: argparse.Namespace, path: Path) -> dict:
    """Measures, prints and writes. A kernel that crashes costs only its own row."""
    record = new_record()
    record["run"]["source"] = "benchmark/kernel_table.py"
    record["run"]["threads"] = ", ".join(map(str, given.threads))
    record["run"]["anabranch"] = anabranch.__version__
    record["limits"] = {}
    for threads in given.threads:
        peaks = limits.best(limits.measure(threads), limits.measure(threads))
        record["limits"][str(threads)] = peaks
        print(about(peaks))
        print("| " + " | ".join(HEADS) + " |\n" + "|---" * len(HEADS) + "|")
        for name in choose(given.names):
            rows = run_apart(name, threads, peaks, given.seconds)
            title = name if threads == 1 else f"{name}, {threads} threads"
            print("| " + " | ".join(summary(title, rows)) + " |", flush=True)
            for row in rows:
                if row.error and row.contender == EXPORTED:
                    print(f"    {title}: {row.error}", flush=True)
            add_case(record, title, KERNELS[name].what, rows)
            write(record, path)
    return record


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help="kernels, or their first letters")
    parser.add_argument("--list", action="store_true", help="name the kernels")
    parser.add_argument("--json", type=Path, help="file of the record")
    parser.add_argument("--compare", type=Path, metavar="OLD.json")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float, default=1.0, help="of each contender")
    parser.add_argument("--mca", nargs="+", default=[], metavar="TARGET")
    parser.add_argument(
        "--keep", action="store_true", help="the page that --mca prints"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        run_child(given.child)
        return 0
    if given.list:
        for name, kernel in KERNELS.items():
            print(f"{name:32} {kernel.what}")
        return 0
    if given.mca:
        # A computation needs nothing that measurements do.
        from machine_code.table import write_all

        some = [*given.names, "--keep"] if given.names else []
        keep = " ".join(some) if given.keep or not some else None
        write_all(given.mca, choose(given.names), keep)
        return 0
    if min(given.threads) < 1 or not given.seconds > 0:
        sys.exit("--threads and --seconds must be positive")
    old = compare.load(given.compare) if given.compare else None
    record = new_record()
    path = given.json or path_of(record)
    record = record_all(given, path)
    print(f"record: {path}; `benchmark/results.py keep {path}` keeps its figures")
    failed = any(
        row.get("error") and row["contender"] == EXPORTED
        for case in record["cases"].values()
        for row in case["rows"]
    )
    worse = compare.report(old, record) if old else False
    return 2 if worse else 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
