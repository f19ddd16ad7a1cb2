"""The compiler of one ATen graph as an object, which serving code patches and saves from.

vllm-ascend wraps `_NpuFxCompiler._get_compiled_gm` to save what it returns, and loads the
saved text in a later process. So each graph of the backends goes through that method, and
the text has the graph, which is compiled again: its kernels come from the cache."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx._graph_pickler import GraphPickler, Options
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from anabranch.extension import InputSource

from ..log import logger
from ..options.config import CompilerConfig
from ..options.flat import AnyConfig, tree_of
from .graph_compiler import compile_graph

__all__ = [
    "CompiledFxArtifacts",
    "CompiledFxGraph",
    "NpuFxCompiler",
]

Compiled = Callable[..., Any]

_HEAD = "# A graph of torchair-compat: base64 of its pickle.\n"


class CompiledFxArtifacts:
    """What of a compiled graph can be saved: `py_code`, a text."""

    def __init__(self) -> None:
        self.py_code: str | None = None


class CompiledFxGraph:
    """A compiled graph. It takes one list of arguments, which it empties."""

    _boxed_call = True

    def __init__(self, executable: Compiled, code: Callable[[], str | None]) -> None:
        self._executable = executable
        self._code = code

    def __call__(self, arguments: list[Any]) -> Any:
        return self._executable(arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_executable":
            raise AttributeError(name)
        return getattr(self._executable, name)

    def get_code(self) -> str | None:
        """The text for `load_artifacts`; None for a graph that cannot be saved."""
        return self._code()

    @staticmethod
    def load_artifacts(artifacts: CompiledFxArtifacts) -> Compiled:
        """The function of a saved graph, compiled again. It takes the graph's inputs one by
        one. ValueError: the text is none of `get_code`."""
        text = artifacts.py_code or ""
        if not text.startswith(_HEAD):
            raise ValueError("py_code is no text of a compiled graph's get_code()")
        saved = _load(base64.b64decode(text.removeprefix(_HEAD)))
        executable = compile_graph(
            saved.module, saved.inputs, saved.sources, config=saved.config
        )

        def call(*arguments: Any) -> Any:
            return executable(list(arguments))

        return call


@dataclasses.dataclass
class _Saved:
    module: torch.fx.GraphModule
    inputs: list[Any]
    sources: list[InputSource]
    config: CompilerConfig


def _load(data: bytes) -> _Saved:
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    parts: Any = GraphPickler.loads(data, mode)
    module, sources, options = parts
    config = CompilerConfig()
    for path, value in options.items():
        target: Any = config
        *groups, name = path.split(".")
        for group in groups:
            target = getattr(target, group)
        setattr(target, name, value)
    placeholders = module.graph.find_nodes(op="placeholder")
    inputs = [node.meta["val"] for node in placeholders]
    return _Saved(module, inputs, [InputSource(*one) for one in sources], config)


def _pickled(
    module: torch.fx.GraphModule,
    sources: Sequence[InputSource],
    config: CompilerConfig,
) -> Callable[[], str | None]:
    """Pickles a graph for `_load` now. Returns a function that returns the text; None for a
    graph with frozen weights, or with something that no pickle takes."""
    if any(source.constant is not None for source in sources):
        return _unsaved
    defaults = CompilerConfig()._raw()
    options = {
        path: value for path, value in config._raw().items() if value != defaults[path]
    }
    named = [(source.label, source.kind) for source in sources]
    try:
        keep = Options(ops_filter=None)
        data = GraphPickler.dumps((module, named, options), keep)
    except Exception:  # noqa: BLE001 - a pickle of anything can fail in any way
        logger.info("a graph cannot be saved", exc_info=True)
        return _unsaved
    return lambda: _HEAD + base64.b64encode(data).decode()


def _unsaved() -> str | None:
    return None


class NpuFxCompiler:
    """Compiles ATen graphs as a configuration asks for."""

    def __init__(
        self, compiler_config: AnyConfig | None = None, **context: Any
    ) -> None:
        self.config = tree_of(compiler_config)
        self._context = context
        self._sources: Sequence[InputSource] = ()

    def __call__(
        self,
        module: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        sources: Sequence[InputSource] | None = None,
    ) -> Compiled:
        if sources is None:
            placeholders = module.graph.find_nodes(op="placeholder")
            sources = [InputSource(str(node.target)) for node in placeholders]
        self._sources = sources
        return self._get_compiled_gm(module, example_inputs)

    def _get_compiled_gm(
        self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]
    ) -> CompiledFxGraph:
        # Compilation edits the graph; the text has the graph as it came. Only code that
        # replaces this method asks for it.
        code = _unsaved
        if NpuFxCompiler._get_compiled_gm is not _ORIGINAL:
            code = _pickled(graph, self._sources, self.config)
        executable = compile_graph(
            graph, example_inputs, self._sources, config=self.config, **self._context
        )
        return CompiledFxGraph(executable, code)


_ORIGINAL = NpuFxCompiler._get_compiled_gm
