"""Static kernels: compiles a graph for the shapes of its first call, and records its
operators under the build folder.

The kernels are a package in Anabranch's library. Of the build folder, later runs read
which script has the kernels (`run_cache.py`). If the compiler fails, a warning says so, and the model runs with the kernels that it
has."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
import torch.fx

from anabranch import Config
from anabranch.extension import ExactShapes, InputSource, StaticPackage

from ..errors import warn_once, wrapping
from ..log import logger
from ..options.config import CompilerConfig, raw
from .ranks import Ranks, find_ranks
from .records import Record, record
from .run_cache import RunCache
from .run_file import write_run

_OPTION = "experimental_config.aclgraph._aclnn_static_shape_kernel"
_ROOTS = {"npugraph_ex": "static_kernel_compile_outputs"}

# Hashes of the records whose operators this process has compiled.
_compiled: set[str] = set()


def is_wanted(config: CompilerConfig) -> bool:
    return config.mode.value != "max-autotune" and bool(raw(config, _OPTION))


def build_folder(config: CompilerConfig) -> Path:
    """The folder of all files; it is made if need be. ValueError, RuntimeError: it
    cannot be used."""
    given = raw(config, f"{_OPTION}_build_dir") or os.getcwd()
    if "\0" in given:
        raise ValueError(f"the build directory has a NUL character: {given!r}")
    if ".." in Path(given).parts:
        raise ValueError(f"the build directory must not have '..' in it: {given}")
    base = Path(os.path.abspath(given))
    for part in (base, *base.parents):
        if part.is_symlink():
            raise ValueError(f"the build directory must not be a link: {part}")
    root = base / _ROOTS.get(config.mode.value, "aclnn_static_shape_kernel_outputs")
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RuntimeError(
            f"can't create the build directory {root}: {error}"
        ) from error
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        raise RuntimeError(f"can't read and write the build directory {root}")
    return root


class StaticKernels:
    """The static kernels of one graph.

    `exact` gets the executable when it is compiled. `wrap` and `wrap_eager` return
    functions that compile before their first call.
    """

    def __init__(
        self, module: torch.fx.GraphModule, config: CompilerConfig, settings: Config
    ) -> None:
        self.module = module
        self.config = config
        self.exact = ExactShapes(settings)
        self.seen: set[int] = set()

    def describe(self, sources: Sequence[InputSource]) -> None:
        """Describes a graph that PyTorch runs, so that its kernels can be compiled too."""
        self.exact.describe(self.module, sources)

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(arguments: list[Any]) -> Any:
            if not self.seen:
                self.compile(arguments)
                self.seen.add(0)
            return function(arguments)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    def wrap_eager(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a graph that PyTorch runs: compiles once for each new value of the
        chosen symbol, if the value is in the wanted range."""
        index = raw(self.config, f"{_OPTION}_sym_index")
        wanted = raw(self.config, f"{_OPTION}_sym_value_range")

        def call(arguments: list[Any]) -> Any:
            symbols = [v for v in arguments if isinstance(v, int)]
            value = symbols[index] if index < len(symbols) else -1
            if value in self.seen or (symbols and wanted and value not in wanted):
                logger.debug("Skip compile static shape kernel, symbol value %s", value)
            else:
                logger.debug(
                    "Start to compile static shape kernel, symbol value %s", value
                )
                self.compile(arguments)
                self.seen.add(value)
            return function(arguments)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    def compile(self, arguments: Sequence[Any]) -> None:
        """Compiles for the shapes of these arguments. Errors of the settings are
        raised; an error of the compiler is a warning."""
        with wrapping():
            ranks = find_ranks()
            if ranks is None:
                return
            root = build_folder(self.config)
        start = f"the build directory is {root.parent}"
        if ranks.world > 1:
            text = (
                f"Rank {ranks.rank}: starting static kernel compilation for multi card"
            )
        else:
            text = "Starting static kernel compilation"
        warn_once(f"{text}, {start}")
        warn_once(
            "The current version now supports caching run packages from static kernel"
            " compilation: use cache_compile"
        )
        try:
            self._compile(arguments, root, ranks)
        except Exception as error:  # noqa: BLE001 - the model runs without them
            warn_once(f"static kernels could not be compiled: {error}")
            logger.debug("static kernels", exc_info=True)

    def _compile(self, arguments: Sequence[Any], root: Path, ranks: Ranks) -> None:
        records = record(self.module, arguments)
        folder = _new_folder(root)
        chosen = _write_records(folder, records)
        places = ranks.exchange(str(folder / f"{os.getpid()}_opcompile"))
        # The first rank of a host compiles; then all others find the package in the
        # library.
        try:
            if ranks.is_first:
                _gather(folder, places)
                self._compile_sizes(arguments, folder, chosen, ranks)
        finally:
            ranks.wait()
        if not ranks.is_first:
            self._compile_sizes(arguments, folder, chosen, ranks)
        _compiled.update(item.key for item in records)

    def _compile_sizes(
        self,
        arguments: Sequence[Any],
        folder: Path,
        chosen: Sequence[Record],
        ranks: Ranks,
    ) -> None:
        contents = [item.content for item in chosen]
        reuses = self.config.reuses_static_kernels
        with self.exact.compile(arguments, contents, anew=not reuses) as made:
            if made is None:
                logger.info("PyTorch runs this graph: no static kernel")
                return
            logger.debug(
                "static kernels %s: %s",
                made.key[:12],
                "compiled" if made.compiled else "from the library",
            )
            if ranks.is_first and chosen:
                self._write_run(folder, made)

    def _write_run(self, folder: Path, made: StaticPackage) -> None:
        """Writes the script with the kernels, unless an earlier run has."""
        known: RunCache | None = None
        if self.config.mode.value in _ROOTS and self.config.reuses_static_kernels:
            known = RunCache(folder.parent)
            if (script := known.find(made.key)) is not None:
                logger.debug("static kernels %s: %s has them", made.key[:12], script)
                return
        now = datetime.now().astimezone().strftime("%Y%m%d%H%M%S")
        script = folder / f"static_kernel_{now}.run"
        write_run(script, made)
        if known is not None and made.key:
            known.keep(made.key, script)


def _new_folder(root: Path) -> Path:
    """Makes a folder `ts<time>_pid<pid>_outputs` for one compilation."""
    while True:
        now = datetime.now().astimezone().strftime("%Y%m%d%H%M%S%f")
        folder = root / f"ts{now}_pid{os.getpid()}_outputs"
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder
        time.sleep(1e-6)


def _write_records(folder: Path, records: Sequence[Record]) -> list[Record]:
    """Writes the folders of records. Returns the records whose operators have to be
    compiled."""
    pid = os.getpid()
    ours = [item for item in records if item.has_kernel]
    chosen: list[Record] = []
    for item in ours:
        if item.key not in _compiled and item.key not in {c.key for c in chosen}:
            chosen.append(item)
    for name, some in (
        (f"{pid}", ours),
        (f"{pid}_debug", records),
        (f"{pid}_opcompile", ours),
        (f"{pid}_opcompile_selected", chosen),
    ):
        place = folder / name
        place.mkdir()
        for item in some:
            (place / item.file).write_text(item.text, encoding="utf-8")
    return chosen


def _gather(folder: Path, places: Sequence[str]) -> None:
    """Joins the records of all ranks of the host; equal ones are kept once."""
    if len(places) < 2:
        return
    target = folder / f"{os.getpid()}_opcompile_gathered"
    target.mkdir()
    seen: set[str] = set()
    for rank, place in enumerate(places):
        for file in sorted(Path(place).glob("*.json")):
            text = file.read_text(encoding="utf-8")
            if text not in seen:
                seen.add(text)
                (target / f"{file.stem}_rank{rank}.json").write_text(text)


def forget_compiled() -> None:
    """Forgets which operators this process has compiled."""
    _compiled.clear()
