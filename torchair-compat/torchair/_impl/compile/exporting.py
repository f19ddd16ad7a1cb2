"""torchair.dynamo_export: writes the model as a package that runs without PyTorch."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Iterator
from typing import Any

import torch
import torch.fx
from torch.export import Dim
from torch.utils._pytree import tree_map

import anabranch
from anabranch import extension

from ..dump.picture import Graph, convert
from ..dump.process import rank
from ..dump.writers import write_pbtxt
from ..errors import warn_once
from ..log import logger
from ..options.config import CompilerConfig

__all__ = ["dynamo_export"]

# A list for each export that is running, which gets the export's graph.
_seen: list[list[Graph]] = []


def _keep(module: torch.fx.GraphModule) -> None:
    if _seen:
        _seen[-1].append(convert(module, "graph_1"))


extension.add_mark_resolver(_keep)


def dynamo_export(
    *args: Any,
    model: torch.nn.Module,
    export_path: str = "export_file",
    export_name: str = "export",
    dynamic: bool = False,
    config: CompilerConfig | None = None,
    **kwargs: Any,
) -> None:
    """Traces `model(*args, **kwargs)` and writes it as a package.

    model        an nn.Module; it is exported in evaluation mode
    export_path  the folder for the files, which is made if need be
    export_name  the package is `<export_name>.air`, for `anabranch.load` and the C
                 interface of the runtime. The graph is in `dynamo.pbtxt` beside it
    dynamic      whether sizes of tensors may change from call to call

    With several ranks each calls this function, and the names are
    `<export_name><rank>.air` and `rank_<rank>/dynamo.pbtxt`. Collectives stay in the
    package: the program that loads it runs them. If a path is a link, the log says so
    and nothing is written. CompileError: the model cannot be exported.
    """
    home, package = _places(export_path, export_name)
    for path in (export_path, package):
        if os.path.islink(path):
            logger.error(
                "dynamo_export: %s is a symbolic link, nothing is written", path
            )
            return
    os.makedirs(home, exist_ok=True)
    if config is not None:
        config.export.export_mode = True
        config.export.export_path_dir = export_path
        config.export.export_name = export_name
    inputs = _bound(model, args, kwargs)
    shapes = tree_map(_any_size, inputs) if dynamic else None
    _seen.append([])
    try:
        with _evaluating(model):
            anabranch.export(
                model,
                package,
                inputs,
                dynamic_shapes=shapes,
                allow_collectives=True,
                overwrite=True,
            )
        (graph,) = _seen[-1]
    finally:
        _seen.pop()
    with open(os.path.join(home, "dynamo.pbtxt"), "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in write_pbtxt(graph))


def _places(export_path: str, export_name: str) -> tuple[str, str]:
    """The paths of the folder of dynamo.pbtxt and of the package."""
    name = os.path.basename(export_name)
    group = torch.distributed
    ranks = group.is_available() and group.is_initialized()
    if ranks and group.get_world_size() > 1:
        home = os.path.join(export_path, f"rank_{rank()}")
        return home, os.path.join(export_path, f"{name}{rank()}.air")
    return export_path, os.path.join(export_path, f"{name}.air")


def _bound(model: torch.nn.Module, args: tuple[Any, ...], kwargs: Any) -> Any:
    """The inputs in the form that anabranch.export takes."""
    if not kwargs:
        return args
    return dict(inspect.signature(model.forward).bind(*args, **kwargs).arguments)


def _any_size(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return dict.fromkeys(range(value.dim()), Dim.AUTO)
    return None


@contextlib.contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    trains = [module for module in model.modules() if module.training]
    if trains and any(True for _ in model.children()):
        warn_once("dynamo_export: the model is exported in evaluation mode")
    model.eval()
    try:
        yield
    finally:
        for module in trains:
            module.training = True
