"""Runs PyTorch's OpInfo database against the compiler and prints, per dtype, how
many operators ran in our own kernels.

    run_opinfo.py [--dtypes f32,i64] [--chunk 1/10] [--samples 16] [--dynamic]
                  [--match REGEX] [--json FILE]

Every operator is tried in a forked process, so that a crash is a failure of that
operator and nothing else.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test" / "python"))

import opinfo


def attempt(operator: Any, name: str, limit: int, dynamic: bool) -> dict[str, Any]:
    """The outcome as JSON, through a pipe from a forked process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(120)
        try:
            found = opinfo.check(operator, opinfo.DTYPES[name], limit, dynamic)
            outcome = {
                "samples": found.samples,
                "failures": found.failures,
                "fallbacks": sorted(found.fallbacks),
                "own": found.own,
                "eager": found.eager,
            }
        except BaseException as error:  # noqa: BLE001 - it is the result
            outcome = {"samples": 1, "failures": [f"{type(error).__name__}: {error}"]}
        with os.fdopen(writer, "w") as stream:
            json.dump(outcome, stream)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) or not text:
        reason = f"died of signal {os.WTERMSIG(status)}"
        return {"samples": 1, "failures": [reason]}
    return json.loads(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtypes", default=",".join(opinfo.DTYPES))
    parser.add_argument("--chunk", default="1/1")
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--match", default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chunk, chunks = (int(part) for part in options.chunk.split("/"))
    everything: dict[str, Any] = {}
    failed = 0
    for name in options.dtypes.split(","):
        counts: collections.Counter[str] = collections.Counter()
        for number, operator in enumerate(opinfo.database()):
            title = opinfo.title(operator)
            if number % chunks != chunk - 1 or not re.search(options.match, title):
                continue
            if not operator.supports_dtype(opinfo.DTYPES[name], "cpu"):
                continue
            outcome = attempt(operator, name, options.samples, options.dynamic)
            everything[f"{title}-{name}"] = outcome
            if outcome["failures"]:
                counts["failed"] += 1
                print(f"FAILED {title} {name}: {outcome['failures'][0]}", flush=True)
            elif not outcome["samples"]:
                counts["no sample"] += 1
            else:
                counts["own kernels" if outcome["own"] else "with fallback"] += 1
        failed += counts["failed"]
        print(name, dict(counts), flush=True)
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
