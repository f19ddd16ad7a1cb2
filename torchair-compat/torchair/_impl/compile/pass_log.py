"""Logs what each pass changed in a graph, at level debug."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable

import torch
import torch.fx

from ..log import logger

__all__ = ["PassLog"]


class PassLog:
    """Called with the name of each pass that has run over a graph. `seen` then gets the
    graph and the name."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        seen: Callable[[torch.fx.GraphModule, str], None],
    ) -> None:
        self._module = module
        self._seen = seen
        self._first = self._last = self._lines()

    def __call__(self, name: str) -> None:
        self._seen(self._module, name)
        now = self._lines()
        self._say(name, self._last, now)
        self._last = now

    def finish(self, name: str) -> None:
        """Logs a line about all passes together."""
        self._say(name, self._first, self._last)

    def _lines(self) -> list[str]:
        if not logger.isEnabledFor(logging.DEBUG):
            return []
        return str(self._module.graph).splitlines()

    def _say(self, name: str, before: list[str], after: list[str]) -> None:
        if not logger.isEnabledFor(logging.DEBUG):
            return
        changes = difflib.unified_diff(before, after, "before", "after", "", "", 1, "")
        # The first line is the head of the graph.
        logger.debug(
            "After fx graph pass(%s) optimization, before %d nodes, after %d nodes.%s",
            name,
            len(before) - 1,
            len(after) - 1,
            "".join(f"\n    {line}" for line in changes),
        )
