"""Finds, keeps and reads the blockings of products that were timed on this machine.

`tune=True` takes the cache's blockings for a graph, or times candidates (tuner.py) and
keeps the winners. `tune="FILE"` takes those that `anabranch tune -o FILE` wrote. If
neither works, the compiler's own choices stay."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import _C, scratch
from ..config import Config
from ..describe.description import Description
from ..errors import OptionError
from ..report import Bar
from ..shapes.gears import Binding
from . import cache, package
from .cache import TUNINGS

FORMAT = 1

Results = dict[str, dict[str, Any]]
# The results of graphs that are compiled inside `collecting` blocks, one for each block.
_collectors: list[Results] = []


def choose_blockings(
    described: Description, config: Config, bindings: Sequence[Binding] = ()
) -> None:
    """Sets the blockings of a graph as the option `tune` says."""
    if config.tune is False:
        return
    if isinstance(config.tune, str):
        results = read_file(config.tune)
    else:
        results = _found_or_timed(described, config, bindings)
    described.blockings = {
        key: result["parameters"]
        for key, result in results.items()
        if result["parameters"]
    }
    for collector in _collectors:
        collector |= results


@contextlib.contextmanager
def collecting() -> Iterator[Results]:
    """Collects the results of tuning inside the block, by the keys of kernels."""
    results: Results = {}
    _collectors.append(results)
    try:
        yield results
    finally:
        _collectors.remove(results)


def _threads(config: Config) -> int:
    return config.threads or _C.default_threads()


def _found_or_timed(
    described: Description, config: Config, bindings: Sequence[Binding]
) -> Results:
    root = cache.folder() if cache.takes_part(config) else ""
    if not root:
        return _time(described, config, bindings, {})
    # Values of constants do not change how long a product takes.
    graph, _, options = package.cache_key(described, config, bindings)
    threads = _threads(config)
    key = cache.digest(FORMAT, TUNINGS, cache.identity(), threads, graph, options)
    entry = cache.Entry(cache.entry_folder(root, TUNINGS, key), trust=config.trust)
    try:
        text = entry.read()
        if text is not None:
            return _checked(json.loads(text)["blockings"])
        results = _time(described, config, bindings, _known(root, config))
        with scratch.folder() as place:
            empty = os.path.join(place, "package")
            os.mkdir(empty)
            entry.publish(empty, {}, json.dumps(_record(config, results)))
        return results
    except (KeyError, TypeError, ValueError) as error:
        entry.discard(str(error))
        return {}
    finally:
        entry.close()


def _known(root: str, config: Config) -> Results:
    """The winners of other graphs' kernels, from this machine and version."""
    found: Results = {}
    for row in _C.cache_entries(root):
        if row["kind"] != TUNINGS:
            continue
        entry = _C.CacheEntry(row["folder"], trust=config.trust or "")
        with contextlib.suppress(
            OSError, RuntimeError, ValueError, KeyError, TypeError
        ):
            # Its writer holds the entry of this graph, so it cannot be read.
            if entry.lock(False, 0.0) and (text := entry.read()) is not None:
                record = json.loads(text)
                if not _foreign(record) and record["threads"] == _threads(config):
                    found |= _checked(record["blockings"])
        entry.unlock()
    return found


def _time(
    described: Description, config: Config, bindings: Sequence[Binding], known: Results
) -> Results:
    """Times the products of a graph. A graph without numbers for its sizes cannot be
    timed."""
    from . import tuner

    symbols = {symbol["name"] for symbol in described.graph["symbols"]}
    wanted = [{s: v for s, v in b.items() if s in symbols} for b in bindings]
    if not wanted and not symbols:
        wanted = [{}]
    bar = Bar("tuning", config.progress or sys.stderr.isatty())
    clock = tuner.Clock(config.tune_seconds, bar)
    results: Results = {}
    try:
        for number, binding in enumerate(wanted):
            until = (number + 1) / len(wanted)
            results |= tuner.tune(
                described, config, binding, known | results, clock, until
            )
    except (OSError, RuntimeError, ValueError, MemoryError) as error:
        # The compilation that follows reports what is wrong with the graph.
        cache.warn_once("tuning", f"the graph is not tuned: {error}")
    finally:
        bar.close()
    return results


# Files


def _record(config: Config, results: Results) -> dict[str, Any]:
    cpu, compiler, runtime = cache.identity()
    return {
        "format": FORMAT,
        "machine": cpu,
        "compiler": compiler,
        "runtime": runtime,
        "threads": _threads(config),
        "blockings": results,
    }


def write_file(path: str, config: Config, results: Results) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(_record(config, results), file, indent=1)
        file.write("\n")


def read_file(path: str) -> Results:
    """The blockings of a file that `write_file` wrote. If the file comes from another
    machine or version, nothing but a warning. OptionError: it is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        if foreign := _foreign(record):
            name = os.path.abspath(path)
            cache.warn_once(f"tuning {name}", f"{path} is ignored: it is of {foreign}")
            return {}
        return _checked(record["blockings"])
    except OSError as error:
        raise OptionError(f"the tuning file can't be read: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise OptionError(f"{path} is no tuning file: {error!r}") from error


def _foreign(record: Mapping[str, Any]) -> str:
    """The part of a record that is of another machine or version; empty if none is."""
    cpu, compiler, runtime = cache.identity()
    if record["format"] != FORMAT:
        return "another version of tuning files"
    if record["machine"] != cpu:
        return "another machine"
    if (record["compiler"], record["runtime"]) != (compiler, runtime):
        return "another version of Anabranch"
    return ""


def _checked(blockings: Mapping[str, Any]) -> Results:
    return {
        str(key): dict(result) | {"parameters": str(result["parameters"])}
        for key, result in blockings.items()
    }
