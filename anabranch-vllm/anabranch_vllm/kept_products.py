"""Programs of products that no graph calls, kept in files for the next start.

Most of the time that such a program takes is PyTorch's, which traces one operator. The
files lie beside the graphs that vLLM saves, and are sealed like them."""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import anabranch

from . import saved, settings

_log = logging.getLogger("vllm.anabranch")

Product = Callable[..., Tensor]


def program(product: Product, arguments: Sequence[Any]) -> Product:
    """The program of a product for arguments like these, and for any number of rows of
    the first one. It is loaded if a process has kept it."""
    path = settings.kept_programs() / _key(product, arguments)
    if path.exists():
        try:
            with path.open("rb") as file:
                return torch.compiler.load_compiled_function(file)
        except Exception as error:  # noqa: BLE001 - PyTorch's reader raises any
            _log.warning("Anabranch: compiles %s again: %s", path, error)
    return _compiled(product, arguments, path)


def _compiled(product: Product, arguments: Sequence[Any], path: Path) -> Product:
    made: list[Callable[..., Any]] = []

    def backend(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        made.append(saved.as_vllm_saves_it(anabranch.anabranch(module, inputs)))
        return made[-1]

    torch._dynamo.decorators.mark_unbacked(arguments[0], 0)
    traced = torch.compile(
        product,
        backend=backend,
        fullgraph=True,
        dynamic=False,
        options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe},
    )
    with torch._dynamo.config.patch(enable_aot_compile=True):
        compiled: Any = traced.aot_compile((tuple(arguments), {}))
    if all(isinstance(graph, saved.SavedGraph) for graph in made):
        _keep(compiled, path)
    return compiled


def _keep(compiled: Any, path: Path) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        compiled.save_compiled_function(str(part))
        part.replace(path)  # a reader sees whole files only
    except OSError as error:
        _log.warning("Anabranch: the next start compiles %s: %s", path, error)


def _key(product: Product, arguments: Sequence[Any]) -> str:
    """What the program depends on. Its seal has the compiler and the processor."""
    source = inspect.getsource(sys.modules[product.__module__])
    parts = [torch.__version__, source, product.__qualname__, torch.is_grad_enabled()]
    for place, value in enumerate(arguments):
        if isinstance(value, Tensor):
            sizes = list(value.shape)[place == 0 :]  # the first one's rows vary
            parts.append((value.dtype, sizes, value.stride(), type(value)))
        else:
            parts.append(value)
    return hashlib.sha256(repr(parts).encode()).hexdigest()
