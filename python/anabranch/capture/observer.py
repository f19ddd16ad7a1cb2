"""Lets one object follow the compilations of a thread.

The front end tells the observer, if there is one, what it makes of each graph.
`cache_compile` records a method this way."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch.fx

from ..describe.description import Description, InputSource


class Observer(Protocol):
    """Gets events of one compilation from the front end, in the order of the methods."""

    kernels: list[str]  # keys of static kernels that were added to the executable

    def refuse(self, reason: str) -> None:
        """Gets the reason why PyTorch runs the graph, or parts of it."""

    def package(self, folder: str, report: dict[str, Any]) -> None:
        """Gets the graph's package: `folder` exists during this call. `report` is the
        report of the compilation that made it."""

    def graph(
        self,
        module: torch.fx.GraphModule,
        described: Description,
        sources: Sequence[InputSource],
    ) -> None:
        """Gets the ATen graph of that package, its description, and the sources of its
        placeholders."""


_current: contextvars.ContextVar[Observer | None] = contextvars.ContextVar(
    "anabranch_observer", default=None
)


def current() -> Observer | None:
    return _current.get()


@contextlib.contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Makes `observer` the current one of this thread inside the block."""
    token = _current.set(observer)
    try:
        yield
    finally:
        _current.reset(token)
