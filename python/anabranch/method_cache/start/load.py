"""Loads an entry of the cache: its recording, its package, and all that belongs to them."""

from __future__ import annotations

import os
from typing import Any

from ... import _C, collector, parameter_file, scratch
from ...packages import cache, donors
from ..calling import Calling
from ..policy import CachePolicy
from ..recording import REPORT, Recording
from . import later_tiers
from .replay import Replay


class Loader:
    """Loads entries of one method, as its configuration says."""

    def __init__(self, policy: CachePolicy) -> None:
        self.policy = policy
        self.config = policy.config
        self.threads: int = getattr(self.config, "threads", 0)
        self.trust: str = getattr(self.config, "trust", None) or ""
        self.freeze: bool | str = getattr(self.config, "freeze", False)

    def load(self, folder: str, index: str, key: str) -> Replay:
        """The replay of the entry in `folder`, whose index has this text. Stale: it is
        of another version or method, or a source file has changed."""
        with collector.at_rest():
            recording = Recording.read(index, folder, key)
            executable = self._executable(folder, recording)
            for static in recording.kernels:
                self._add_kernels(executable, static, recording.calling)
            replay = Replay(
                self.policy.method,
                recording,
                executable,
                self.policy.strict,
                self.freeze,
            )
            with open(os.path.join(folder, REPORT), encoding="utf-8") as report:
                replay.report = report.read()
            self._add_tiers(replay, folder)
            return replay

    def _executable(self, folder: str, recording: Recording) -> Any:
        """The program, which takes weights that another executable has from there."""
        module: Any = self.policy.method.__self__
        if self.freeze == "move":
            tensors = (*module.parameters(), *module.buffers())
            parameter_file.move(tensors, scratch.place())
        weights = recording.frozen_weights(module)
        parameter_file.drop_all_pages()
        executable = load_executable(
            folder, recording.calling, self.threads, self.trust, donors.find(weights)
        )
        donors.add(weights, executable)
        return executable

    def _add_kernels(self, executable: Any, key: str, calling: Calling) -> None:
        """Adds a program for exact shapes to the executable, if the library still has
        it."""
        library = cache.folder()
        if not library:
            return
        folder = cache.entry_folder(library, cache.KERNELS, key)
        entry = cache.Entry(folder, trust=self.trust)
        try:
            if entry.read() is not None:
                executable.add(
                    load_executable(folder, calling, self.threads, self.trust)
                )
        finally:
            entry.close()

    def _add_tiers(self, replay: Replay, folder: str) -> None:
        """Has the first call begin the compilation of tiers, if the entry describes its
        graph."""
        path = os.path.join(folder, later_tiers.FILE)
        if not os.path.exists(path):
            return
        with open(path, "rb") as file:
            later = later_tiers.LaterTiers(
                replay.executable, file.read(), replay.recording.calling, self.config
            )
        replay.noticed = later.begin


def load_executable(
    path: str, calling: Calling, threads: int, trust: str = "", like: Any = None
) -> Any:
    """Loads the package. With `like`, another executable, equal weights are shared."""
    return _C.Executable(
        path,
        threads=threads,
        check_hashes=False,
        passed=calling.passed,
        copied=calling.copied,
        arguments=calling.arguments,
        views=calling.views,
        like=like,
        trust=trust,
    )
