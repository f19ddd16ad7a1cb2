"""Writes the dumps of a graph that the option debug.graph_dump asks for."""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Callable, Iterable, Sequence

import torch
import torch.fx

from anabranch.extension import InputSource

from ..errors import UnsupportedOption
from ..log import logger
from ..options.config import CompilerConfig, raw
from ..options.table import TUNE
from .inputs import name_written_inputs, pack_symbols
from .picture import Graph, convert
from .picture_passes import optimized
from .picture_trace import check_deadlocks
from .process import rank
from .writers import WRITERS, fx_program

__all__ = ["Dumps"]


class Dumps:
    """The dumps of one graph."""

    def __init__(self, config: CompilerConfig, number: int) -> None:
        self._kind = raw(config, "debug.graph_dump.type")
        self._folder = raw(config, "debug.graph_dump.path")
        self._number = number
        self._folds = bool(raw(config, "experimental_config.enable_view_optimize"))
        self._captures = config.mode.value != TUNE
        self._refers = bool(raw(config, "experimental_config.enable_ref_data"))
        self._checks = bool(raw(config, "debug.deadlock_check"))
        self._graph: Graph | None = None
        if self._captures and self._kind not in (None, "py"):
            raise UnsupportedOption(
                f"Graph dump for aclGraph only support 'py' type, but got: {self._kind}"
            )

    def write_original(
        self, module: torch.fx.GraphModule, sources: Sequence[InputSource] = ()
    ) -> None:
        """Writes the graph before optimisation, and logs the attributes of nodes.
        `sources` tell which tensors graphs share."""
        logs = self._kind or logger.isEnabledFor(logging.DEBUG)
        if self._captures:
            self._write("original", lambda: [fx_program(module)])
        if self._checks or (logs and not self._captures):
            graph = convert(module, f"graph_{self._number}")
            if self._refers:
                inputs = module.graph.find_nodes(op="placeholder")
                labels = {n: source.label for n, source in zip(inputs, sources)}
                graph = name_written_inputs(graph, labels)
            self._graph = graph
            if not self._captures:
                self._write("original", lambda: WRITERS[self._kind](graph))

    def write_optimized(self, module: torch.fx.GraphModule) -> None:
        if self._captures:
            self._write("optimized", lambda: [fx_program(module)])
        if self._graph is not None:
            graph = optimized(self._graph, self._folds)
            graph = Graph(graph.name, pack_symbols(graph.nodes))
            if not self._captures:
                self._write("optimized", lambda: WRITERS[self._kind](graph))
            if self._checks and _is_static(module):
                check_deadlocks(graph, self._number)

    def _write(self, stage: str, lines: Callable[[], Iterable[str]]) -> None:
        """Writes a file. A failure is printed, not raised."""
        if self._kind is None:
            return
        target = self._folder or "."
        path = os.path.join(target, _file_name(stage, self._number, self._kind))
        try:
            os.makedirs(target, exist_ok=True)
            with open(path, "w", encoding="utf-8") as stream:
                stream.writelines(f"{line}\n" for line in lines())
        except OSError as error:
            print(f"dump {self._kind} failed {error}", flush=True)
        else:
            logger.debug("dumped %s graph %d to %s", stage, self._number, path)


def _is_static(module: torch.fx.GraphModule) -> bool:
    values = (node.meta.get("val") for node in module.graph.nodes)
    return not any(isinstance(value, torch.SymInt) for value in values)


def _file_name(stage: str, number: int, kind: str) -> str:
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d%H%M%S%f")
    return (
        f"dynamo_{stage}_graph_{number}_rank_{rank()}_pid_{os.getpid()}_ts_{now}.{kind}"
    )
