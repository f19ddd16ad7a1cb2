"""Packages for the exact shapes of a call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch.fx

from ..capture import observer
from ..config import Config
from ..describe import graph, symbols
from ..packages import kernel_library, package
from .graphs import Description, InputSource

__all__ = [
    "ExactShapes",
    "StaticPackage",
    "copy_package",
]

StaticPackage = kernel_library.StaticPackage


def copy_package(package: StaticPackage, folder: str) -> None:
    """Copies the files of a package to a folder, which must not exist yet."""
    kernel_library.copy_files(package, folder)


class ExactShapes:
    """Makes packages of one graph for exact shapes. They are kept in a library that
    processes and models share.

    First say which graph: give `on_executable` to `compile_graph`, or call `describe`
    for a graph that PyTorch runs. Then call `compile` with the arguments of each call.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._executable: Any = None
        self._described: Description | None = None

    def on_executable(self, executable: Any, described: Description) -> None:
        """Adds packages to this executable: calls of their sizes then run in them."""
        self._executable, self._described = executable, described

    def describe(
        self, module: torch.fx.GraphModule, sources: Sequence[InputSource]
    ) -> None:
        """Describes a graph that has no executable. If the compiler cannot describe it,
        `compile` gives None."""
        with contextlib.suppress(symbols.Unsupported):
            self._described = graph.GraphReader(module, "static", sources).read()

    @contextlib.contextmanager
    def compile(
        self, arguments: Sequence[Any], records: Sequence[Any], *, anew: bool = False
    ) -> Iterator[StaticPackage | None]:
        """The package for the shapes of these arguments, from the library or compiled
        now; with `anew`, compiled in any case.

        Its folder exists inside the `with` block. None: PyTorch runs this graph.
        `records` is JSON that the library shows with the package.
        """
        if self._described is None:
            yield None
            return
        sizes = _sizes_of(self._described, arguments)
        with kernel_library.compile_static(
            self._described, self._config, sizes, records, anew=anew
        ) as made:
            yield made
            if sizes and self._executable is not None:
                self._add(made, made.key if not anew else "")

    def _add(self, made: StaticPackage, key: str) -> None:
        """Adds the program to the executable. If `cache_compile` records this
        compilation, later processes add the one with this key in the library too."""
        assert self._described is not None
        loaded = package.load(
            made.folder, self._described, self._config, check_hashes=False
        )
        self._executable.add(loaded)
        watching = observer.current()
        if watching is not None and key:
            watching.kernels.append(key)


def _sizes_of(described: Description, arguments: Sequence[Any]) -> dict[str, int]:
    """The value that each symbol of the graph has in a call with these arguments."""
    wanted = {symbol["name"] for symbol in described.graph["symbols"]}
    found: dict[str, int] = {}
    passed = [entry for entry in described.graph["inputs"] if "constant" not in entry]
    for entry, position in zip(passed, described.passed):
        value = arguments[position]
        if isinstance(entry.get("expr"), str):
            found.setdefault(entry["expr"], int(value))
        for dim, size in enumerate(entry.get("shape", ())):
            if isinstance(size, str):
                found.setdefault(size, int(value.shape[dim]))
    return {name: size for name, size in found.items() if name in wanted}
