"""Anabranch's counters beside vLLM's metrics.

Workers make programs, and the process that started them answers `/metrics`. A worker
writes its counters to a file of its own, in a folder that this process has made. Files of
workers that ended stay there, so that no counter becomes smaller."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anabranch
from anabranch import metrics as of_this_process

# Workers inherit it. The folder goes with the process that made it.
FOLDER = "ANABRANCH_VLLM_METRICS"


def publish() -> None:
    """Gives vLLM's registry a collector, in the process that starts workers."""
    if FOLDER in os.environ:
        return
    try:
        from prometheus_client import REGISTRY
    except ImportError:
        return  # vLLM without a server
    try:
        folder = tempfile.TemporaryDirectory(prefix="anabranch-metrics-")
    except OSError:
        return  # there is no folder for temporary files; vLLM's own metrics need none
    os.environ[FOLDER] = folder.name
    REGISTRY.register(Collector(folder))


class Collector:
    """Adds the counters of all workers. It keeps the folder."""

    def __init__(self, folder: tempfile.TemporaryDirectory[str]) -> None:
        self.folder = folder

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily

        sums = dict.fromkeys(of_this_process.COUNTED, 0)
        for path in Path(self.folder.name).glob("*.json"):
            for name, count in json.loads(path.read_text()).items():
                sums[name] += count
        for name, count in sums.items():
            yield CounterMetricFamily(
                f"anabranch_{name}", of_this_process.COUNTED[name], value=count
            )


class Writer:
    """Writes the counters of a worker whenever they have changed."""

    def __init__(self) -> None:
        self.written: Any = None

    def update(self) -> None:
        if anabranch.counters == self.written:
            return
        self.written = dataclasses.replace(anabranch.counters)
        if folder := os.environ.get(FOLDER):
            self._write(Path(folder))

    def _write(self, folder: Path) -> None:
        content = json.dumps(dataclasses.asdict(self.written))
        part = folder / f"{os.getpid()}.part"
        try:
            part.write_text(content)
            part.replace(part.with_suffix(".json"))  # a reader sees whole files only
        except OSError:
            return  # the disk is full, or the folder's process has ended
