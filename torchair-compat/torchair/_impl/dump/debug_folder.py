"""Writes the folder of TORCH_COMPILE_DEBUG=1: each graph after each pass."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator

import torch
import torch.fx

from ..log import logger, wants_debug
from ..options.config import CompilerConfig, raw
from ..options.table import TUNE
from .picture import convert
from .picture_passes import optimized
from .process import rank
from .writers import WRITERS, fx_program

__all__ = ["DebugFolder"]

_models = itertools.count()


class DebugFolder:
    """The folder of one model, with folders for its forward and its backward graphs."""

    def __init__(self, root: str) -> None:
        self.path = os.path.join(root, f"model__{next(_models)}")
        self.numbers: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)

    @classmethod
    def of_model(cls, module: torch.fx.GraphModule) -> DebugFolder | None:
        """The folder, with the Dynamo graph in it; None if the environment does not ask
        for it."""
        if not wants_debug():
            return None
        root = torch._dynamo.utils.get_debug_dir()
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            root += f"-rank_{rank()}"
        root = os.path.join(root, "torchair")
        _log_to(os.path.join(root, "debug.log"))
        made = cls(root)
        made._write("dynamo_out_graph.txt", [_text(module)])
        return made

    def graph(self, module: torch.fx.GraphModule, after: str = "") -> None:
        phase = _phase(module)
        end = f"_after_{after}" if after else ""
        self._numbered(phase, f"aot_{phase}_graph{end}.txt", [_text(module)])

    def compiled(self, module: torch.fx.GraphModule, config: CompilerConfig) -> None:
        """Writes the graph that the compiler gets: as code, or as a picture before and
        after the passes over the picture."""
        phase = _phase(module)
        if config.mode.value != TUNE:
            self._write(os.path.join(phase, "output_code.py"), [fx_program(module)])
            return
        kind = raw(config, "debug.graph_dump.type") or "pbtxt"
        graph = convert(module, phase)
        for stage, picture in (("original", graph), ("optimized", optimized(graph))):
            lines = WRITERS[kind](picture)
            self._numbered(phase, f"dynamo_{stage}_graph.{kind}", lines)

    def _numbered(self, phase: str, name: str, lines: Iterable[str]) -> None:
        number = next(self.numbers[phase])
        self._write(os.path.join(phase, f"{number:03d}_{name}"), lines)

    def _write(self, name: str, lines: Iterable[str]) -> None:
        path = os.path.join(self.path, name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as stream:
                stream.writelines(f"{line}\n" for line in lines)
        except OSError as error:
            logger.error("%s can't be written: %s", path, error)


def _text(module: torch.fx.GraphModule) -> str:
    return module.print_readable(print_output=False)


def _phase(module: torch.fx.GraphModule) -> str:
    inputs = module.graph.find_nodes(op="placeholder")
    backward = any(str(node.target).startswith("tangents_") for node in inputs)
    return "backward" if backward else "forward"


def _log_to(path: str) -> None:
    """Adds the file to the logger's outputs, once."""
    files = [h for h in logger.handlers if isinstance(h, logging.FileHandler)]
    if any(handler.baseFilename == os.path.abspath(path) for handler in files):
        return
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        handler = logging.FileHandler(path, encoding="utf-8")
        handler.setFormatter(logger.handlers[0].formatter)
        logger.addHandler(handler)
