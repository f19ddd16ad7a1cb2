"""How far the compiler's own blockings are from those that tuning finds.

tuned.py               products of the kernel table, on one thread
tuned.py NAME ...      only products whose names begin so
tuned.py --seconds 20  of each kernel

A row has the time of a kernel with the compiler's choice, and with the best of its
timed candidates. The record is one of `run.py`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import torch

import anabranch
from anabranch.packages import tuning
from harness import Workload
from kernel_cases import KERNELS
from record import Row, add_case, new_record, path_of, write

PRODUCTS = ("linear", "int8-", "conv")
# The most that the compiler's choice may lose.
WITHIN = 1.10


def tune(work: Workload, threads: int, seconds: float) -> tuning.Results:
    torch._dynamo.reset()
    config = anabranch.Config(
        tune=True, tune_seconds=seconds, threads=threads, freeze=True
    )
    compiled = anabranch.compile(work.function, config=config)
    with torch.no_grad(), tuning.collecting() as results:
        compiled(*work.arguments)
    return results


def rows_of(results: tuning.Results) -> list[Row]:
    """The rows of all products of a case together."""
    timed = [result for result in results.values() if "us" in result]
    if not timed:
        return [Row("default", error="no kernel with several blockings")]
    texts = [result["parameters"] for result in timed if result["parameters"]]
    return [
        Row("default", sum(result["default_us"] for result in timed), "us"),
        Row("tuned", sum(r["us"] for r in timed), "us", note="; ".join(texts)),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help="kernels, or their first letters")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", type=Path, help="file of the record")
    given = parser.parse_args()
    wanted = tuple(given.names) or PRODUCTS
    chosen = [
        name
        for name, kernel in KERNELS.items()
        if name.startswith(PRODUCTS) and name.startswith(wanted) and not kernel.lacking
    ]
    if not chosen:
        sys.exit(f"no product begins with {', '.join(given.names)}")
    torch.set_num_threads(given.threads)
    record = new_record()
    record["run"]["source"] = "benchmark/tuned.py"
    path = given.json or path_of(record)
    print("| kernel | default us | tuned us | default / tuned | blocking |")
    print("|---|---|---|---|---|")
    far = []
    with tempfile.TemporaryDirectory() as folder:
        # Earlier timings do not count, and kernels are made once.
        os.environ |= {"ANABRANCH_CACHE": "1", "ANABRANCH_CACHE_HOME": folder}
        for name in chosen:
            rows = rows_of(tune(KERNELS[name].make(), given.threads, given.seconds))
            add_case(record, f"tuned-{name}", KERNELS[name].what, rows)
            write(record, path)
            if rows[0].error:
                print(f"| {name} | | | | {rows[0].error} |", flush=True)
                continue
            default, best = rows
            ratio = default.value / best.value
            far += [name] if ratio > WITHIN else []
            cells = f"{default.value:.1f} | {best.value:.1f} | {ratio:.2f}"
            print(f"| {name} | {cells} | {best.note} |", flush=True)
    share = f"{len(chosen) - len(far)} of {len(chosen)}"
    print(f"{share} are within {WITHIN - 1:.0%} of tuned; record: {path}")
    return 2 if far else 0


if __name__ == "__main__":
    sys.exit(main())
