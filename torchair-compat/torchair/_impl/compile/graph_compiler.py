"""Compiles one ATen graph: runs the user's passes, resolves marks, writes dumps, and
calls Anabranch's compiler.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx

from anabranch import Config, extension
from anabranch.extension import InputSource

from ..dump.debug_folder import DebugFolder
from ..dump.graph_dump import Dumps
from ..dump.program_log import log_program
from ..dump.summary import summarise
from ..dump.values import values_of, wants_values
from ..errors import warn_once
from ..kernels.static_kernels import StaticKernels, is_wanted
from ..log import logger
from ..marks.resolve import resolve_marks
from ..options.config import CompilerConfig, raw
from ..options.table import EX, TUNE
from . import gears
from .captures import Captures
from .cat_buffers import with_buffers
from .fusion_files import report
from .passes import edit
from .run_log import reporting
from .weight_blocks import BlockedWeights

__all__ = ["compile_graph", "freezes"]

Compiled = Callable[..., Any]

_numbers = itertools.count(1)


def freezes(config: CompilerConfig) -> bool:
    return bool(raw(config, "experimental_config.frozen_parameter"))


def compile_graph(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    sources: Sequence[InputSource],
    *,
    config: CompilerConfig,
    geared: gears.Geared | None = None,
    debug: DebugFolder | None = None,
    in_blocks: frozenset[str] = frozenset(),
) -> Compiled:
    """Compiles one ATen graph, or lets PyTorch run it where an option asks for that.

    `geared` are the gears of the Dynamo graph. `debug` keeps the graph after each
    stage. `in_blocks` are the labels of inputs in FRACTAL_NZ.
    """
    start = time.perf_counter()
    check_pool(config)
    if debug:
        debug.graph(module)
    fused = edit(module, example_inputs, config, debug.graph if debug else _unseen)
    captures = config.mode.value != TUNE
    single = bool(raw(config, "ge_config.enable_single_stream"))
    symbolic = geared is None and _is_dynamic(module)
    resolve_marks(module, captures, single, symbolic)
    if debug:
        debug.graph(module, "resolve_marks")
        debug.compiled(module, config)
    number = next(_numbers)
    report(config, number, fused)
    dumps = Dumps(config, number)
    dumps.write_original(module, sources)
    if not _is_compiled(module, config):
        dumps.write_optimized(module)
        return values_of(module, config, number) or _run_eagerly(
            module, sources, config
        )
    more = gears.options(module, geared)
    if freezes(config):
        more |= gears.frozen_flags(module, sources)
    if logger.isEnabledFor(logging.DEBUG):
        _log_options(config, number, more | gears.hint_shapes(module))
    settings = _settings(config, module)
    hooks: dict[str, Any] = {}
    static = StaticKernels(module, config, settings) if is_wanted(config) else None
    if static:
        hooks["on_executable"] = static.exact.on_executable
    if logger.isEnabledFor(logging.DEBUG):
        hooks["on_package"] = functools.partial(log_program, graph=f"graph_{number}")
    blocked = None
    if in_blocks and not static and not extension.is_recording():
        blocked = BlockedWeights.find(module, sources, in_blocks)
    executable = extension.compile_graph(
        blocked.module if blocked else module,
        example_inputs,
        blocked.sources if blocked else sources,
        config=settings,
        gears=geared.dims if geared else (),
        **hooks,
    )
    if blocked:
        executable = blocked.wrap(executable)
    if static:
        executable = static.wrap(executable)
    if captures and not raw(config, "debug.run_eagerly"):
        executable = Captures(module, sources, config, number).wrap(executable)
    dumps.write_optimized(_shown(module, config, captures))
    return reporting(executable, time.perf_counter() - start)


def _shown(
    module: torch.fx.GraphModule, config: CompilerConfig, captures: bool
) -> torch.fx.GraphModule:
    """The graph that dumps and logs show as the optimised one."""
    is_seen = raw(config, "debug.graph_dump.type") or logger.isEnabledFor(logging.DEBUG)
    if captures and is_seen and raw(config, "debug.aclgraph.remove_cat_ops"):
        return with_buffers(module)
    return module


def _unseen(module: torch.fx.GraphModule, after: str) -> None:
    """The observer of passes without a debug folder: it does nothing."""


def _run_eagerly(
    module: torch.fx.GraphModule, sources: Sequence[InputSource], config: CompilerConfig
) -> Compiled:
    function = extension.run_eagerly(module)
    if not is_wanted(config):
        return function
    static = StaticKernels(module, config, _settings(config, module))
    static.describe(sources)
    return static.wrap_eager(function)


def _is_compiled(module: torch.fx.GraphModule, config: CompilerConfig) -> bool:
    """Whether to compile the graph; False: an option asks PyTorch to run it.

    npugraph_ex's `force_eager` asks for no capture: an NPU then runs the edited graph
    operator by operator. Here the compiled program is the way without a capture.
    """
    if raw(config, "debug.fx_summary.type") and summarise(module, config):
        return False
    if raw(config, "debug.run_eagerly") and config.mode.value != EX:
        warn_once(
            "When debug.run_eagerly=True is enabled, the graph FALLS BACK to EAGER"
            " execution"
        )
        return False
    return not wants_values(config)


def _log_options(config: CompilerConfig, number: int, more: Mapping[str, str]) -> None:
    local, everywhere = config.as_dict()
    logger.debug("Compiling concrete graph %d with options:", number)
    for key, value in {**local, **everywhere, **more}.items():
        logger.debug("    %s = %s", key, value)


def check_pool(config: CompilerConfig) -> None:
    """TypeError: `use_custom_pool` is no handle of a pool."""
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
    """The compiler's Config.

    In a graph with symbolic sizes, the environment decides whether the compiler spreads
    unmarked operators over streams. A write in place waits for readers on other
    streams.
    """
    dynamic = _is_dynamic(module)
    spread = os.environ.get("ENABLE_DYNAMIC_SHAPE_MULTI_STREAM") == "1"
    streams = "auto" if dynamic and spread else "marked"
    merge = raw(config, "inference_config.dynamic_gears_merge_policy")
    options = {
        "freeze": freezes(config),
        "streams": streams,
        "gears_merge": merge,
        "hazards": "wait",
    }
    fuses = raw(config, "experimental_config.aclgraph._super_kernel_optimize")
    if fuses and config.mode.value != TUNE:
        options["super_kernels"] = "auto"
    return extension.configure(options)
