"""Compiles a graph description to a package in a private folder and loads it."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .. import _C, parameter_file, scratch
from ..config import Config
from ..describe.description import Description
from ..describe.tensors import dtype_name
from ..errors import MemoryLimitError, OptionError
from ..marks import super_kernel as supers
from ..report import Progress, explain_report, record
from ..shapes.gears import Binding
from ..trace.profiler import trace_process
from . import cache, donors
from .refreshing import owner_hashes


def build(
    described: Description,
    config: Config,
    bindings: Sequence[Binding] = (),
    on_package: Callable[[str, dict[str, Any]], None] | None = None,
) -> _C.Executable | None:
    """The executable of a graph, compiled or from the cache; None if the compiler was
    told to stop early.

    `on_package` is called with the package's folder, while the folder exists, and with
    the report of the compilation.
    """
    key = functools.partial(cache_key, described, config, bindings)
    with cache.package_entry(key, config) as entry:
        text = entry.read()
        if text is not None:
            # The entry keeps the report of the compilation.
            report = json.loads(text) | {"name": described.graph["name"]}
            report["cache"] = "hit"
            if found := _load(entry, report, described, config):
                if on_package is not None:
                    on_package(entry.folder, report)
                return found
        # The loaded files stay mapped when the folder is removed.
        with scratch.folder() as folder:
            path = os.path.join(folder, "package")
            report = write(described, config, path, bindings)
            if config.stop is not None:
                return None
            if entry.publish(path, {}, json.dumps(report)):
                cache.keep_small(cache.folder())
            if on_package is not None:
                on_package(path, report)
            return _finish(path, report, described, config)


def _load(
    entry: cache.Entry, report: dict[str, Any], described: Description, config: Config
) -> _C.Executable | None:
    try:
        return _finish(entry.folder, report, described, config)
    except (OSError, RuntimeError) as error:
        entry.discard(str(error))
        return None


def _finish(
    path: str, report: dict[str, Any], described: Description, config: Config
) -> _C.Executable:
    weights = list(described.constants.values())
    like = donors.find(weights)
    executable = load(path, described, config, check_hashes=False, like=like)
    donors.add(weights, executable)
    record(
        report,
        executable=executable,
        graphs=1,
        kernels=executable.kernels,
        launches=executable.launches,
        fallback_calls=executable.host_calls,
    )
    if config.explain:
        explain_report(report)
    return executable


def rebuild(
    described: Description, config: Config, bindings: Sequence[Binding]
) -> _C.Executable:
    """The program of a graph for new values of its constants. Kernels come from the
    cache. The package is not kept, since more values may follow."""
    quiet = _quiet(config)
    with scratch.folder() as folder:
        path = os.path.join(folder, "package")
        write(described, quiet, path, bindings)
        return load(path, described, quiet, check_hashes=False)


def specialise(
    described: Description,
    config: Config,
    path: str,
    binding: Binding,
    like: Callable[[], _C.Executable | None],
) -> _C.Executable:
    """The program of a graph for certain sizes, to be added to another executable. If
    `like` still lives, it shares its weights."""
    quiet = _quiet(config)
    key = functools.partial(cache_key, described, quiet, [binding])
    with cache.package_entry(key, quiet) as entry:
        if found := _read_special(entry, described, quiet, like):
            return found
        write(described, quiet, path, [binding])
        if entry.publish(path, {}, "{}"):
            cache.keep_small(cache.folder())
        return load(path, described, quiet, False, like())


def find(
    described: Description,
    config: Config,
    binding: Binding,
    like: Callable[[], _C.Executable | None],
) -> _C.Executable | None:
    """As `specialise`, if the cache has the program; None if it has not."""
    quiet = _quiet(config)
    key = functools.partial(cache_key, described, quiet, [binding])
    with cache.package_entry(key, quiet) as entry:
        return _read_special(entry, described, quiet, like)


def _read_special(
    entry: cache.Entry,
    described: Description,
    config: Config,
    like: Callable[[], _C.Executable | None],
) -> _C.Executable | None:
    if entry.read() is None:
        return None
    try:
        return load(entry.folder, described, config, False, like())
    except (OSError, RuntimeError) as error:
        entry.discard(str(error))
        return None


def _quiet(config: Config) -> Config:
    return dataclasses.replace(config, dump=None, progress=False, explain=False)


def cache_key(
    described: Description, config: Config, bindings: Sequence[Binding]
) -> list[Any]:
    """A hash of everything that the bytes of a package depend on."""
    graph = {key: value for key, value in described.graph.items() if key != "name"}
    options = json.loads(_compiler_options(described, config, bindings))
    # Machines that differ only in their number of cores share packages.
    del options["threads"]
    # The blockings that tuning found count as an option of their own.
    for name in (*cache.WATCHING, "tune", "tune_seconds"):
        del options["config"][name]
    constants = cache.constants_key(_constants(described))
    described.hashes = {name: known for name, _, _, known in constants}
    return [graph, constants, options]


def _constants(described: Description) -> list[tuple[str, str, Any]]:
    return [
        (name, dtype_name(value.dtype), value.detach())
        for name, value in described.constants.items()
    ]


def write(
    described: Description,
    config: Config,
    path: str,
    bindings: Sequence[Binding] = (),
    cpu: str = "host",
    list_blockings: int = 0,
) -> dict[str, Any]:
    """Compiles a package into the folder `path`, with a program for each binding.

    Returns the report. With `list_blockings`, it has so many blockings of each product.
    """
    text = json.dumps(described.graph)
    if config.dump is not None:
        _dump(text, described.graph["name"], config.dump)
    constants = _constants(described)
    objects = cache.folder() if cache.takes_part(config) else ""
    progress = Progress() if config.progress else None
    try:
        report, message = _C.compile(
            text,
            constants,
            _compiler_options(described, config, bindings, cpu, list_blockings),
            path,
            progress,
            os.path.join(objects, cache.OBJECTS) if objects else "",
            " ".join(cache.identity()) if objects else "",
            config.trust or "",
        )
    finally:
        if progress is not None:
            progress.close()
    found = {"name": described.graph["name"], "message": message} | json.loads(report)
    supers.warn_of_breaks(found)
    return found


def load(
    path: str,
    described: Description,
    config: Config,
    check_hashes: bool = True,
    like: _C.Executable | None = None,
) -> _C.Executable:
    if config.trace is not None:
        trace_process(config.trace)
    if config.pin is not None:
        try:
            _C.pin_workers(config.pin)
        except ValueError as error:
            raise OptionError(str(error)) from error
    if config.freeze == "move":
        # They were read for the package, which has a copy of them. A reader that
        # follows them would read them again for their hashes.
        owner_hashes(described)
        parameter_file.drop_all_pages()
    try:
        return _C.Executable(
            path,
            threads=config.threads,
            check_hashes=check_hashes,
            passed=described.passed,
            copied=described.copied,
            arguments=described.arguments,
            views=described.views,
            like=like,
            trust=config.trust or "",
        )
    except MemoryError as error:
        raise MemoryLimitError(str(error)) from error


def _compiler_options(
    described: Description,
    config: Config,
    bindings: Sequence[Binding],
    cpu: str = "host",
    list_blockings: int = 0,
) -> str:
    symbols = {symbol["name"] for symbol in described.graph["symbols"]}
    # A graph may have lost a symbol that its inputs had.
    left = [{s: v for s, v in b.items() if s in symbols} for b in bindings]
    options: dict[str, Any] = {
        "cpu": cpu,
        "bindings": [b for i, b in enumerate(left) if b and b not in left[:i]],
        "hazards": config.hazards,
        "threads": config.threads or _C.default_threads(),
        "explain": config.explain,
        "debug": config.debug,
        "config": config.as_dict(),
    }
    if options["bindings"] and config.gears_pad:
        options["pad"] = True
    if "auto" in (config.streams, config.super_kernels):
        options["machine"] = _machine(config.threads)
    if config.super_kernels == "auto":
        options["super_kernels"] = "auto"
    # A tier uses the weights that the symbolic program has packed.
    panels = "alike" if config.shapes == "tiered" else config.panels
    if panels != "best":
        options["panels"] = panels
    if config.activations != "exact":
        options["activations"] = config.activations
    # Blockings were timed on this machine, so other targets do not use them.
    if described.blockings and cpu in ("host", "native"):
        options["blockings"] = described.blockings
    if list_blockings:
        options["list_blockings"] = list_blockings
    if config.dump is not None:
        options["dump"] = config.dump
    if config.stop is not None:
        options["stop"] = config.stop
    return json.dumps(options)


def _machine(threads: int) -> dict[str, Any]:
    """The facts that the compiler's own choices depend on. Kernels that are small
    enough to overlap work in the cache, and what all workers read there together grows
    with their arithmetic."""
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
