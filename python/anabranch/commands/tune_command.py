"""`anabranch tune`: times ways to cut up a model's products and keeps the best."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping
from typing import Any

from ..config import MOST_THREADS
from ..measure.subject import Model, is_package, load_model


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "tune",
        help="times ways to cut up a model's products, and keeps the best",
        description="Compiles a model, which a function gives as for `anabranch "
        "bench`, and times candidates of blockings for its products with its own "
        "shapes. The cache keeps the best: torch.compile and anabranch.compile "
        "find them with the option tune=True. A file of them (-o) is for "
        'tune="FILE", on the same machine with the same version.',
    )
    parser.add_argument("model", help="FILE.py, FILE.py:function or module:function")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="of each graph of the model; 30"
    )
    parser.add_argument("--threads", type=int, default=0, help="of one call")
    parser.add_argument(
        "--live", action="store_true", help="do not freeze weights (freeze=False)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="where they also go")


def run(given: argparse.Namespace) -> int:
    if not 0 < given.seconds < math.inf:
        raise ValueError(f"--seconds must be positive, got {given.seconds}")
    if not 0 <= given.threads <= MOST_THREADS:
        raise ValueError(f"--threads must be from 0 to {MOST_THREADS}")
    if is_package(given.model):
        raise ValueError(
            f"{given.model} is a folder: a package is tuned when it is exported, with "
            "Config(tune=True)"
        )
    output = given.output
    if output and not os.path.isdir(os.path.dirname(os.path.abspath(output))):
        raise ValueError(f"-o: there is no folder of {output}")
    model = load_model(given.model)
    results = _tune(model, given)
    print(table(results))
    return 0


def _tune(model: Model, given: argparse.Namespace) -> Mapping[str, Any]:
    import torch

    from ..backend import compile
    from ..config import resolve
    from ..packages import tuning

    options = {
        "tune": True,
        "tune_seconds": given.seconds,
        "threads": given.threads,
        "freeze": not given.live,
    }
    compiled = compile(model.model, **options)
    with torch.no_grad(), tuning.collecting() as results:
        try:
            compiled(*model.positional, **model.named)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            raise ValueError(f"{model.name}: the call fails: {text}") from error
    if given.output:
        tuning.write_file(given.output, resolve(options), results)
    return results


def table(results: Mapping[str, Any]) -> str:
    """A line for each kernel: the compiler's own choice and the best that was found."""
    lines = [f"{'default us':>12}{'tuned us':>12}{'gain':>7}  {'kernel':<33}blocking"]
    for key, result in results.items():
        if "us" not in result:
            lines.append(f"{'':>31}  {key:<33}ran in no call")
            continue
        default, best = result["default_us"], result["us"]
        blocking = result["parameters"] or "the compiler's choice"
        gain = f"{default / best:.2f}x"
        lines.append(f"{default:>12.1f}{best:>12.1f}{gain:>7}  {key:<33}{blocking}")
    changed = sum(bool(result["parameters"]) for result in results.values())
    lines.append(f"{len(results)} kernels of products, {changed} changed")
    return "\n".join(lines)
