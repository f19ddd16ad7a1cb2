"""A graph description -> a package in a private folder -> an executable."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import _C
from .config import Config
from .gears import Binding
from .graph import Description
from .profiler import trace_process
from .report import Progress, explain_report, record
from .tensors import dtype_name


def build(
    described: Description, config: Config, bindings: Sequence[Binding] = ()
) -> _C.Executable | None:
    """Compiles and loads. None when the compiler was told to stop early. The
    folder is gone once the package is loaded: what is mapped stays."""
    with tempfile.TemporaryDirectory(prefix="anabranch-") as folder:
        path = os.path.join(folder, "package")
        report = write(described, config, path, bindings)
        if config.stop is not None:
            return None
        executable = load(path, described, config, check_hashes=False)
    record(
        report,
        graphs=1,
        kernels=executable.kernels,
        launches=executable.launches,
        fallback_calls=executable.host_calls,
    )
    if config.explain:
        explain_report(report)
    return executable


def specialise(
    described: Description, config: Config, path: str, binding: Binding
) -> _C.Executable:
    """The program of a graph for certain sizes, to be added to another."""
    quiet = dataclasses.replace(config, dump=None, progress=False, explain=False)
    write(described, quiet, path, [binding])
    return load(path, described, quiet, check_hashes=False)


def write(
    described: Description, config: Config, path: str, bindings: Sequence[Binding] = ()
) -> dict[str, Any]:
    """Compiles into the package folder `path`, a program for each binding, and
    returns the report."""
    text = json.dumps(described.graph)
    if config.dump is not None:
        _dump(text, described.graph["name"], config.dump)
    constants = [
        (name, dtype_name(value.dtype), value.detach().contiguous())
        for name, value in described.constants.items()
    ]
    progress = Progress() if config.progress else None
    try:
        report, message = _C.compile(
            text,
            constants,
            _compiler_options(described, config, bindings),
            path,
            progress,
        )
    finally:
        if progress is not None:
            progress.close()
    return {"name": described.graph["name"], "message": message} | json.loads(report)


def load(
    path: str, described: Description, config: Config, check_hashes: bool = True
) -> _C.Executable:
    if config.trace is not None:
        trace_process(config.trace)
    return _C.Executable(
        path,
        threads=config.threads,
        check_hashes=check_hashes,
        passed=described.passed,
        copied=described.copied,
        arguments=described.arguments,
        views=described.views,
    )


def _compiler_options(
    described: Description, config: Config, bindings: Sequence[Binding]
) -> str:
    symbols = {symbol["name"] for symbol in described.graph["symbols"]}
    # A graph may have lost a symbol that its inputs had.
    left = [{s: v for s, v in b.items() if s in symbols} for b in bindings]
    options: dict[str, Any] = {
        "bindings": [b for i, b in enumerate(left) if b and b not in left[:i]],
        "hazards": config.hazards,
        "threads": config.threads,
        "explain": config.explain,
        "debug": config.debug,
        "config": config.as_dict(),
    }
    if config.streams == "auto":
        options["machine"] = _machine(config.threads)
    if config.dump is not None:
        options["dump"] = config.dump
    if config.stop is not None:
        options["stop"] = config.stop
    return json.dumps(options)


def _machine(threads: int) -> dict[str, Any]:
    """What streams="auto" goes by. Kernels that are small enough to overlap
    work in the cache; what all workers read there together grows like their
    arithmetic."""
    limits = json.loads(_C.machine_limits())
    share = limits["gflops_all"] / limits["gflops"]
    return {
        "workers": threads or _C.default_threads(),
        "gflops": limits["gflops"],
        "gflops_all": limits["gflops_all"],
        "cache_gbs": limits["cache_gbs"],
        "cache_gbs_all": limits["cache_gbs"] * share,
        "wake_us": limits["wake_us"],
    }


def _dump(text: str, name: str, folder: str) -> None:
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    (target / f"{name}.graph.json").write_text(text)
