"""get_npu_backend and get_compiler: Dynamo's graphs to Anabranch's compiler."""

from __future__ import annotations

import functools
import itertools
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
import torch.fx
from torch._dynamo import register_backend
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from anabranch import backend
from anabranch.capture.aot import aot
from anabranch.config import Config, resolve
from anabranch.describe.graph import InputSource

from . import _gears
from ._captures import Captures
from ._debug import DebugFolder
from ._dump import Dumps
from ._errors import warn_once, wrapping
from ._marks import resolve_marks
from ._passes import edit
from ._program import log_program
from ._static import StaticKernels, is_wanted
from ._summary import summarise
from ._values import values_of, wants_values
from .configs._engine import warn_of_mode
from .configs._flat import CompilerConfig as FlatConfig
from .configs._table import TUNE
from .configs.compiler_config import CompilerConfig, apply_flat, raw
from .core.utils import EVENT_LEVEL, logger

__all__ = [
    "compile_flat",
    "get_compiler",
    "get_flat_backend",
    "get_npu_backend",
    "npu",
    "npugraph_ex",
    "tree_of",
]

Compiled = Callable[..., Any]
AnyConfig = CompilerConfig | FlatConfig

_numbers = itertools.count(1)


def get_npu_backend(
    *,
    compiler_config: AnyConfig | None = None,
    custom_decompositions: Mapping[Any, Compiled] = MappingProxyType({}),
) -> functools.partial[Compiled]:
    """The backend for torch.compile."""
    given = CompilerConfig() if compiler_config is None else compiler_config
    warn_of_mode(tree_of(given))
    return functools.partial(
        npu, compiler_config=given, custom_decompositions=custom_decompositions
    )


def get_flat_backend(
    *,
    compiler_config: FlatConfig | None = None,
    custom_decompositions: Mapping[Any, Compiled] = MappingProxyType({}),
) -> functools.partial[Compiled]:
    """npugraph_ex.get_npu_backend."""
    return get_npu_backend(
        compiler_config=compiler_config or FlatConfig(),
        custom_decompositions=custom_decompositions,
    )


def tree_of(config: AnyConfig | None) -> CompilerConfig:
    """The tree of options, also behind a flat configuration. TypeError."""
    if config is None:
        return CompilerConfig()
    if isinstance(config, FlatConfig):
        return config._tree
    if not isinstance(config, CompilerConfig):
        raise TypeError(f"compiler_config must be a CompilerConfig, got {config!r}")
    return config


def get_compiler(compiler_config: AnyConfig | None = None) -> Compiled:
    """A compiler of ATen graphs, for aot_module_simplified's `fw_compiler`. What
    it compiles takes the inputs one by one and returns the list of outputs."""
    config = tree_of(compiler_config)

    def compile_one(
        module: torch.fx.GraphModule, example_inputs: Sequence[Any]
    ) -> Compiled:
        with wrapping():
            nodes = [n for n in module.graph.nodes if n.op == "placeholder"]
            if not all("val" in node.meta for node in nodes):
                FakeTensorProp(module).propagate(*example_inputs)
            sources = [InputSource(str(node.target)) for node in nodes]
            boxed = compile_graph(module, example_inputs, sources, config=config)

        def call(*arguments: Any) -> Any:
            return boxed(list(arguments))

        return call

    return compile_one


@register_backend(name="npu")
def npu(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    compiler_config: AnyConfig | None = None,
    custom_decompositions: Mapping[Any, Compiled] = MappingProxyType({}),
    options: Mapping[str, Any] | None = None,
) -> Compiled:
    """The Dynamo backend."""
    config = tree_of(compiler_config)
    with wrapping():
        if options:
            apply_flat(config, options)
        geared = _gears.find(module, example_inputs, config)
        debug = DebugFolder.of_model(module)
        compile_one = functools.partial(
            compile_graph, config=config, geared=geared, debug=debug
        )
        return aot(
            module,
            example_inputs,
            compile_one,
            _freezes(config),
            custom_decompositions,
        )


@register_backend(name="npugraph_ex")
def npugraph_ex(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
) -> Compiled:
    """The Dynamo backend of the capture path."""
    return npu(module, example_inputs, compiler_config=FlatConfig(), options=options)


def compile_flat(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Compiled:
    """npugraph_ex.compile_fx: one ATen graph, by the flat options. ValueError for one
    that does not exist."""
    config = FlatConfig()
    apply_flat(config._tree, options or {})
    if example_inputs is None:
        placeholders = gm.graph.find_nodes(op="placeholder")
        example_inputs = [node.meta.get("val") for node in placeholders]
    return get_compiler(config)(gm, example_inputs)


def _freezes(config: CompilerConfig) -> bool:
    return bool(raw(config, "experimental_config.frozen_parameter"))


def compile_graph(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    sources: Sequence[InputSource],
    *,
    config: CompilerConfig,
    geared: _gears.Geared | None = None,
    debug: DebugFolder | None = None,
) -> Compiled:
    """One ATen graph: the user's passes, the dumps, and what runs it."""
    start = time.perf_counter()
    check_pool(config)
    if debug:
        debug.graph(module)
    edit(module, example_inputs, config, debug.graph if debug else _unseen)
    captures = config.mode.value != TUNE
    single = bool(raw(config, "ge_config.enable_single_stream"))
    fuses = geared is not None or not _is_dynamic(module)
    resolve_marks(module, captures, single, fuses)
    if debug:
        debug.graph(module, "resolve_marks")
        debug.compiled(module, config)
    number = next(_numbers)
    dumps = Dumps(config, number)
    dumps.write_original(module)
    if not _is_compiled(module, config):
        dumps.write_optimized(module)
        return values_of(module, config, number) or _run_eagerly(
            module, sources, config
        )
    more = _gears.options(module, geared)
    if _freezes(config):
        more |= _gears.frozen_flags(module, sources)
    _log_options(config, number, more)
    settings = _settings(config, module)
    more_options: dict[str, Any] = {"geared": geared.dims} if geared else {}
    static = StaticKernels(module, config, settings) if is_wanted(config) else None
    if static:
        more_options["built"] = static.built
    if logger.isEnabledFor(logging.DEBUG):
        more_options["seen"] = functools.partial(log_program, graph=f"graph_{number}")
    executable = backend.compile_graph(
        module, example_inputs, sources, config=settings, **more_options
    )
    if static:
        executable = static.wrap(executable)
    if captures:
        executable = Captures(module, sources, config, number).wrap(executable)
    dumps.write_optimized(module)
    return _reporting(executable, time.perf_counter() - start)


def _unseen(module: torch.fx.GraphModule, after: str) -> None:
    """Nobody looks at the graph between passes."""


def _run_eagerly(
    module: torch.fx.GraphModule, sources: Sequence[InputSource], config: CompilerConfig
) -> Compiled:
    function = backend.run_eagerly(module)
    if not is_wanted(config):
        return function
    static = StaticKernels(module, config, _settings(config, module))
    static.describe(sources)
    return static.wrap_eager(function)


def _is_compiled(module: torch.fx.GraphModule, config: CompilerConfig) -> bool:
    """Whether no option has PyTorch run the graph."""
    if raw(config, "debug.fx_summary.type") and summarise(module, config):
        return False
    if raw(config, "debug.run_eagerly"):
        warn_once(
            "When debug.run_eagerly=True is enabled, the graph FALLS BACK to EAGER"
            " execution"
        )
        return False
    return not wants_values(config)


def _log_options(config: CompilerConfig, number: int, more: Mapping[str, str]) -> None:
    if not logger.isEnabledFor(logging.DEBUG):
        return
    local, everywhere = config.as_dict()
    logger.debug("Compiling concrete graph %d with options:", number)
    for key, value in {**local, **everywhere, **more}.items():
        logger.debug("    %s = %s", key, value)


def check_pool(config: CompilerConfig) -> None:
    """TypeError: a pool that is no handle of one."""
    pool = raw(config, "aclgraph_config.use_custom_pool")
    is_pair = isinstance(pool, tuple) and [type(part) for part in pool] == [int, int]
    if pool is not None and not (is_pair and 0 in pool):
        raise TypeError(
            "config.aclgraph_config.use_custom_pool must be a handle of"
            f" torch.npu.graph_pool_handle(), two ints of which one is 0, got {pool!r}"
        )


def _is_dynamic(module: torch.fx.GraphModule) -> bool:
    return any(
        isinstance(node.meta.get("val"), torch.SymInt) for node in module.graph.nodes
    )


def _settings(config: CompilerConfig, module: torch.fx.GraphModule) -> Config:
    """Sizes that change leave it to the environment whether operators outside of
    stream scopes are spread over streams."""
    dynamic = _is_dynamic(module)
    spread = os.environ.get("ENABLE_DYNAMIC_SHAPE_MULTI_STREAM") == "1"
    streams = "auto" if dynamic and spread else "marked"
    merge = raw(config, "inference_config.dynamic_gears_merge_policy")
    options = {"freeze": _freezes(config), "streams": streams, "gears_merge": merge}
    fuses = raw(config, "experimental_config.aclgraph._super_kernel_optimize")
    if fuses and config.mode.value != TUNE:
        options["super_kernels"] = "auto"
    return resolve(options)


def _reporting(executable: Compiled, compile_seconds: float) -> Compiled:
    """The executable, with a line in the log for each run where that is asked
    for. Inputs are processed inside of the run."""
    pending = [compile_seconds]

    def call(arguments: list[Any]) -> Any:
        if not logger.isEnabledFor(EVENT_LEVEL):
            return executable(arguments)
        start = time.perf_counter()
        results = executable(arguments)
        ran = time.perf_counter() - start
        compiled = pending.pop() if pending else 0.0
        logger.event(
            "torchair run at %s, process input: 0us, compile %dus, graph run: %dus",
            time.strftime("%Y-%m-%d %H:%M:%S"),
            compiled * 1e6,
            ran * 1e6,
        )
        return results

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
