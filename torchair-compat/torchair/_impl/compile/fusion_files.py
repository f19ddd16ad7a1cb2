"""Reads and writes the files about fusions: which are on, and how often each was
applied."""

from __future__ import annotations

import atexit
import json
from collections.abc import Callable
from typing import Any

from ..errors import UnsupportedOption, warn_once
from ..log import logger
from ..options.config import CompilerConfig, raw
from ..options.table import TUNE
from .fusions import FUSIONS, Count

__all__ = ["report", "switches"]

_FILE = "fusion_result.json"
_NEVER, _AT_EXIT = "0", "1"

_Counts = dict[str, Any]

_sessions: _Counts = {}  # the contents of fusion_result.json, by graph
_late: _Counts = {}  # the entries that are written at exit


def switches(config: CompilerConfig) -> Callable[[str], bool]:
    """A function that says whether `fusion_switch_file` leaves a fusion on.

    The file is `{"Switch": {"GraphFusion": {"ALL": "off", "<name>": "on"}}}`.
    UnsupportedOption: it has another form.
    """
    path = raw(config, "fusion_config.fusion_switch_file")
    if path is None:
        return lambda name: True
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    table = _group(_group(found, "Switch", path), "GraphFusion", path)
    for name, value in table.items():
        if value not in ("on", "off"):
            raise UnsupportedOption(
                f"config.fusion_config.fusion_switch_file: {name} must be on or off in"
                f" {path}, got {value!r}"
            )
        if name not in ("ALL", *FUSIONS):
            warn_once(
                f"config.fusion_config.fusion_switch_file: the fusion {name} has no"
                f" effect on this host, which has {', '.join(FUSIONS)}"
            )
    rest = table.get("ALL", "on")
    return lambda name: table.get(name, rest) == "on"


def _group(found: Any, name: str, path: str) -> dict[str, Any]:
    part = found.get(name, {}) if isinstance(found, dict) else None
    if not isinstance(part, dict):
        raise UnsupportedOption(
            f"config.fusion_config.fusion_switch_file: {path} has no table {name!r}"
        )
    return part


def report(config: CompilerConfig, number: int, counts: dict[str, Count]) -> None:
    """Writes the fusions of a graph to fusion_result.json in the current folder, now or
    at exit, as `export_compile_stat` says. Without any fusion nothing is written."""
    when = raw(config, "ge_config.export_compile_stat")
    if not counts or when == _NEVER or config.mode.value != TUNE:
        return
    passes = {
        name: {"effect_times": str(c.applied), "match_times": str(c.matched)}
        for name, c in counts.items()
    }
    entry = {f"session_and_graph_id_0_{number}": {"graph_fusion": passes}}
    if when != _AT_EXIT:
        _sessions.update(entry)
        _write(_sessions)
        return
    if not _late:
        atexit.register(_write, _late)
    _late.update(entry)


def _write(entries: _Counts) -> None:
    try:
        with open(_FILE, "w", encoding="utf-8") as file:
            json.dump(entries, file, indent=2)
    except OSError as error:
        logger.error("%s can't be written: %s", _FILE, error)
