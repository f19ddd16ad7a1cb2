"""`anabranch bench`: latency and throughput of a package or a model."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..config import MOST_THREADS
from ..measure import bench, compare, shapes
from ..measure.latency import PERCENTILES, Limits
from ..report import Progress


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "bench",
        help="latency and throughput of a package or a model",
        description="Calls a package or a model again and again. A package's folder "
        "needs no PyTorch. A model comes from a function, named as FILE.py (its "
        "function `workload`), FILE.py:function or module:function, that returns "
        "the model and its inputs: a tuple, or a dict of named ones.",
    )
    parser.add_argument("subject", help="a package's folder, or such a function")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1x128,...",
        help="shapes of inputs; each --shape is a row of its own",
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="values of an input; others are random numbers, or zeros if integers",
    )
    parser.add_argument("--engine", choices=bench.ENGINES, default="anabranch")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a field of anabranch.Config, for a model",
    )
    parser.add_argument(
        "--threads", type=int, default=0, help="of one call; 0: one for each core"
    )
    parser.add_argument(
        "--callers", type=int, default=1, help="threads that call at the same time"
    )
    parser.add_argument(
        "--seconds", type=float, help="of each row; 10, or any with --calls"
    )
    parser.add_argument("--calls", type=int, help="of each row, at most")
    parser.add_argument(
        "--warm-up", type=int, default=10, help="calls that are not measured"
    )
    parser.add_argument("--json", metavar="FILE", help="where the record goes")
    parser.add_argument(
        "--compare",
        metavar="OLD.json",
        help="an earlier record; the exit status is 2 if a median is over 5 %% slower",
    )


def run(given: argparse.Namespace) -> int:
    settings = _settings(given)
    earlier = compare.read(given.compare) if given.compare else None
    folder = os.path.dirname(os.path.abspath(given.json)) if given.json else "."
    if not os.path.isdir(folder):
        raise ValueError(f"--json: there is no folder {folder}")
    progress = Progress() if sys.stderr.isatty() else None
    try:
        record = bench.bench(given.subject, settings, progress)
    finally:
        if progress is not None:
            progress.close()
    print(table(record))
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
            file.write("\n")
    if earlier is None:
        return 0
    lines, worse = compare.compare(earlier, record)
    print("\n".join(lines))
    return 2 if worse else 0


def _settings(given: argparse.Namespace) -> bench.Settings:
    for name, least in (("callers", 1), ("calls", 1), ("warm_up", 0), ("threads", 0)):
        value = getattr(given, name)
        if value is not None and not least <= value <= sys.maxsize:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} must be at least {least}, got {value}")
    for name in ("callers", "threads"):
        if getattr(given, name) > MOST_THREADS:
            raise ValueError(f"--{name} must be at most {MOST_THREADS}")
    seconds = given.seconds
    if seconds is None:
        seconds = 10.0 if given.calls is None else math.inf
    elif not 0 < seconds < math.inf:
        raise ValueError(f"--seconds must be positive, got {seconds}")
    return bench.Settings(
        given.engine,
        given.threads,
        given.callers,
        Limits(seconds, given.calls, given.warm_up),
        [shapes.parse(text) for text in given.shape],
        {name: _read(path) for name, path in _pairs("input", given.input)},
        {name: _value(text) for name, text in _pairs("option", given.option)},
    )


def _pairs(option: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    pairs = [text.partition("=") for text in texts]
    for text, (name, equals, value) in zip(texts, pairs):
        if not (name and equals and value):
            raise ValueError(f"--{option} must look like NAME=VALUE, got {text!r}")
    names = [name for name, _, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"--{option} names {name!r} twice")
    return [(name, value) for name, _, value in pairs]


def _read(path: str) -> Any:
    import numpy

    try:
        return numpy.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"--input {path} can't be read: {error}") from error


def _value(text: str) -> Any:
    """The value of an option: what JSON reads from the text (`true`, `8`), else the
    text."""
    try:
        return json.loads(text.lower())
    except ValueError:
        return text


def table(record: Mapping[str, Any]) -> str:
    about = ", ".join(f"{name} {text}" for name, text in record["versions"].items())
    threads, callers = record["threads"], record["callers"]
    loaded = f"loaded in {record['load_ms']:.4g} ms"
    lines = [
        f"{record['subject']}, {record['engine']}: {record['machine']['cpu']}; {about}",
        f"threads {threads}, callers {callers}, {loaded}",
    ]
    heads = ["min", "median", *(f"p{share}" for share in PERCENTILES), "max", "mean"]
    titles = ["first call", *heads, "calls/s", "calls"]
    rows = []
    for run in record["runs"]:
        latency = run["latency_ms"]
        shape = ", ".join(f"{n}={s}" for n, s in run["shapes"].items())
        cells = [f"{run['first_ms']:.4g}", *(f"{latency[name]:.4g}" for name in heads)]
        cells += [f"{run['calls_per_second']:.4g}", str(run["calls"])]
        rows.append([*cells, shape])
    widths = [max(len(row[i]) for row in [titles, *rows]) for i in range(len(titles))]
    for row in [[*titles, "shapes (latencies in ms)"], *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row, widths)]
        lines.append("  ".join([*cells, row[-1]]))
    return "\n".join(lines)
