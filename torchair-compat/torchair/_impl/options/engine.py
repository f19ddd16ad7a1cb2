"""Translates a CompilerConfig to the graph engine's options, and says which options do
not fit a mode."""

from __future__ import annotations

import os
import time
from typing import Any

from ..errors import warn_once
from .table import TUNE
from .tree import Group, Option

Options = dict[str, Any]

_SORTING = {"BFS": "0", "DFS": "1", "RDFS": "2", "StableRDFS": "3"}
_KERNEL = "_aclnn_static_shape_kernel"


def engine_options(config: Group) -> tuple[Options, Options]:
    """The two dicts of CompilerConfig.as_dict: options of one graph, and options of the
    process."""
    tuned = config.mode.value == TUNE
    local = _debug_options(config)
    local |= _graph_options(config) if tuned else _capture_options(config)
    local["mode"] = config.mode.value
    everywhere = _process_options(config)
    if tuned:
        key = "ge.exec.enableEngineParallel"
        everywhere[key] = config.experimental_config.cc_parallel_enable.value
    return local, everywhere | _dump_options(config)


def _debug_options(config: Group) -> Options:
    capture, common = config.debug.aclgraph, config.experimental_config
    names = (
        "disable_mempool_reuse_in_same_fx",
        "enable_output_clone",
        "static_capture_size_limit",
        "clone_input",
    )
    options = {name: getattr(capture, name).value for name in names}
    for name in ("run_eagerly", "deadlock_check"):
        options[name] = getattr(config.debug, name).value
    for name in ("remove_noop_ops", "pattern_fusion_pass", "frozen_parameter"):
        options[name] = getattr(common, name).value
    return options


def _graph_options(config: Group) -> Options:
    tuning = config.experimental_config
    strategy = tuning.topology_sorting_strategy.value
    if config.ge_config.oo_level.value == "O1":
        strategy = "StableRDFS"
    options = {
        "ge.tiling_schedule_optimize": tuning.tiling_schedule_optimize.value,
        "ge.featureBaseRefreshable": tuning.memory_efficiency.value,
        "ge.topoSortingMode": _SORTING[strategy],
        "ge.jit_compile": "2",
    }
    if (limit := tuning.static_model_ops_lower_limit.value) is not None:
        options["ge.exec.static_model_ops_lower_limit"] = limit
    return options


def _capture_options(config: Group) -> Options:
    capture = config.experimental_config.aclgraph
    options: Options = {}
    if getattr(capture, _KERNEL):
        options[_KERNEL] = getattr(capture, _KERNEL).value
        folder = getattr(capture, f"{_KERNEL}_build_dir").value
        options[f"{_KERNEL}_build_dir"] = folder or ""
        for name in ("sym_value_range", "sym_index"):
            value = getattr(capture, f"{_KERNEL}_{name}").value
            options[f"{_KERNEL}_{name}"] = value
    if capture._super_kernel_optimize:
        for name in ("optimize", "optimize_options", "debug_options"):
            key = f"_super_kernel_{name}"
            options[key] = getattr(capture, key).value
    return options


def _process_options(config: Group) -> Options:
    engine = config.ge_config
    found = {
        "ge.aicoreNum": engine.aicore_num.value,
        "ge.enableSingleStream": "true" if engine.enable_single_stream else "false",
        "ge.oo.level": engine.oo_level.value,
        "ge.oo.constantFolding": _flag(engine.oo_constant_folding),
        "ge.oo.deadCodeElimination": _flag(engine.oo_dead_code_elimination),
        "ge.exportCompileStat": engine.export_compile_stat.value,
        "ge.optimizationSwitch": engine.optimization_switch.value,
        "ge.fusionSwitchFile": config.fusion_config.fusion_switch_file.value,
    }
    return {key: value for key, value in found.items() if value is not None}


def _flag(option: Option) -> str | None:
    return None if option.raw is None else str(bool(option.raw)).lower()


def _dump_options(config: Group) -> Options:
    dump = config.dump_config
    options: Options = {}
    if dump.dump_config_path.value is not None:
        options["ge_dump_with_acl_config"] = dump.dump_config_path.value
    if not dump.enable_dump:
        return options
    if config.mode.value != TUNE:
        return options | {
            "aclgraph.enableDump": dump.enable_dump.value,
            "aclgraph.dumpPath": dump.dump_path.value,
            "aclgraph.dumpStage": dump.data_dump_stage.value,
        }
    folder = os.path.join(dump.dump_path.value, time.strftime("%Y%m%d%H%M%S"))
    os.makedirs(folder, exist_ok=True)
    return options | {
        "ge.exec.enableDump": dump.enable_dump.value,
        "ge.exec.dumpPath": folder,
        "ge.exec.dumpMode": dump.dump_mode.value,
        "ge.quant_dumpable": dump.quant_dumpable.value,
        "ge.exec.dumpStep": dump.dump_step.value,
        "ge.exec.dumpLayer": dump.dump_layer.value,
        "ge.exec.dumpData": dump.dump_data.value,
    }


def warn_of_mode(config: Group) -> None:
    """Warns of options that were set and have no effect in the mode."""
    mode = config.mode.value
    found = [
        f"config.{path}:{leaf.value}"
        for path, leaf in config._leaves()
        if isinstance(leaf, Option) and _is_odd(leaf, mode)
    ]
    if mode == "reduce-overhead":
        warn_once(
            '"reduce-overhead" mode configuration will be deprecated. Please use'
            ' the "npugraph_ex" backend.',
            DeprecationWarning,
            stacklevel=3,
        )
        found += found and ["set_dim_gears", "dynamo_export", "scope", "npu_print"]
    if found:
        warn_once(
            "The following torchair config or properties may not take effect or"
            f" report error in {mode} mode: {', '.join(found)}",
            stacklevel=3,
        )


def _is_odd(leaf: Option, mode: str) -> bool:
    values = leaf.row.odd.get(mode, ())
    return leaf.assigned and (values == "any" or leaf.raw in values)
