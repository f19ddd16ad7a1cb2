"""Compares two records of `anabranch bench`: which shapes became slower."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# On a quiet machine a median changes by less from run to run.
TOLERANCE = 0.05


def read(path: str) -> dict[str, Any]:
    """A record from a file. ValueError: the file has none."""
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        if record["format"] != 1:
            raise ValueError(f"it has the format {record['format']}, not 1")
        for run in record["runs"]:
            float(run["latency_ms"]["median"])
        dict(record["machine"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no record of anabranch bench: {error}") from error
    return record


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[str], bool]:
    """A line for each shape of both records, and whether a median became slower."""
    lines, worse = [], False
    for what in ("machine", "threads", "callers", "engine"):
        if old.get(what) != new.get(what):
            lines.append(f"another {what}: {old.get(what)} before, {new[what]} now")
    before = {_key(run): run for run in old["runs"]}
    for run in new["runs"]:
        if (earlier := before.get(_key(run))) is None:
            lines.append(f"{_title(run)}: not measured before")
            continue
        was, now = earlier["latency_ms"]["median"], run["latency_ms"]["median"]
        slower = now > was * (1 + TOLERANCE)
        worse |= slower
        remark = "  SLOWER" if slower else ""
        lines.append(
            f"{_title(run)}: {was:.4g} ms before, {now:.4g} ms now, "
            f"{was / now:.2f}x{remark}"
        )
    return lines, worse


def _key(run: Mapping[str, Any]) -> str:
    return json.dumps(run["shapes"], sort_keys=True)


def _title(run: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={size}" for name, size in run["shapes"].items())
