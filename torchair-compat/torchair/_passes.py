"""Edits of a graph before its scopes are resolved: the user's and Inductor's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from ._patterns import replace_patterns
from ._values import is_original
from .configs.compiler_config import CompilerConfig, raw
from .core.utils import logger

__all__ = ["edit"]


def edit(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], config: CompilerConfig
) -> None:
    """All that the configuration asks for, in TorchAir's order."""
    if is_original(config):
        return
    if raw(config, "experimental_config.npu_fx_pass"):
        _joint_passes(module)
    _custom_pass("post_grad_custom_pre_pass", module, example_inputs, config)
    if raw(config, "experimental_config.pattern_fusion_pass"):
        replace_patterns(module)
    _custom_pass("post_grad_custom_post_pass", module, example_inputs, config)


def _joint_passes(module: torch.fx.GraphModule) -> None:
    import torch._inductor.config
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes

    # Inductor's own random numbers have no meaning for another compiler.
    with torch._inductor.config.patch(fallback_random=True):
        joint_graph_passes(module)


def _custom_pass(
    name: str,
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    config: CompilerConfig,
) -> None:
    function = raw(config, name)
    if function is None:
        return
    logger.info("[forward] before [%s] execution, graph is %s", name, module.graph)
    function(module, example_inputs, config)
    module.graph.lint()
    module.recompile()
    logger.info("[forward] after [%s] execution, graph is %s", name, module.graph)
