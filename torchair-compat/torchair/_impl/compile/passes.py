"""Runs passes over a graph whose scopes are still marks: the user's passes, Inductor's,
and the fusions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from anabranch.extension import complete_nodes

from ..dump.values import is_original
from ..ge.converters import run_converters
from ..log import logger
from ..marks.operators import unify
from ..options.config import CompilerConfig, raw
from ..options.table import TUNE
from .fusion_files import switches
from .fusions import Count, apply_fusions, lower_operators
from .noops import remove_noops
from .pass_log import PassLog
from .patterns import replace_patterns

__all__ = ["edit"]


def edit(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    config: CompilerConfig,
    seen: Callable[[torch.fx.GraphModule, str], None],
) -> dict[str, Count]:
    """Runs the passes that the configuration asks for, in TorchAir's order.

    `seen` gets the graph and the pass's name after each pass. Returns how often the
    pattern of each built-in fusion was found and applied.
    """
    counts: dict[str, Count] = {}
    unify(module.graph)
    if is_original(config):
        return counts
    ran = PassLog(module, seen)
    if raw(config, "experimental_config.npu_fx_pass"):
        _joint_passes(module)
        ran("npu_fx_pass")
    if _custom_pass("post_grad_custom_pre_pass", module, example_inputs, config):
        ran("post_grad_custom_pre_pass")
    if raw(config, "experimental_config.remove_noop_ops"):
        remove_noops(module)
        ran("optimize_noop_ops")
    captures = config.mode.value != TUNE
    if raw(config, "experimental_config.pattern_fusion_pass"):
        replace_patterns(module)
        counts = apply_fusions(module, captures, switches(config))
        ran("apply_pattern_passes")
    if _custom_pass("post_grad_custom_post_pass", module, example_inputs, config):
        ran("post_grad_custom_post_pass")
    if run_converters(module):
        ran("run_converters")
    if lower_operators(module):
        ran("lower_operators")
    if captures:
        ran.finish("all npugraph_ex pass")
    return counts


def _joint_passes(module: torch.fx.GraphModule) -> None:
    import torch._inductor.config
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes

    # Only Inductor's own compiler knows its operators for random numbers.
    with torch._inductor.config.patch(fallback_random=True):
        joint_graph_passes(module)


def _custom_pass(
    name: str,
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    config: CompilerConfig,
) -> bool:
    """Runs the pass of this option. Returns False if the option is not set."""
    function = raw(config, name)
    if function is None:
        return False
    logger.info("[forward] before [%s] execution, graph is %s", name, module.graph)
    function(module, example_inputs, config)
    unify(module.graph)
    complete_nodes(module)
    module.graph.lint()
    module.recompile()
    logger.info("[forward] after [%s] execution, graph is %s", name, module.graph)
    return True
