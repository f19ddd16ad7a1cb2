"""Functions of torchair's interface that this host has no way to keep: each says
what to do in its place."""

from __future__ import annotations

from typing import Any, NoReturn

from .core.utils import logger

__all__ = ["dynamo_export", "patch_for_hcom", "register_fx_node_ge_converter"]


def dynamo_export(*args: Any, model: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: there is no graph engine here that reads .air."""
    raise NotImplementedError(
        "torchair.dynamo_export writes an .air file for the graph engine of an NPU;"
        " on this host anabranch.export(model, path, inputs) writes a package that"
        " runs without PyTorch"
    )


def register_fx_node_ge_converter(aten_op: Any) -> Any:
    """Raises NotImplementedError when it decorates a converter, whose nodes need an
    NPU. None as the operator leaves the function as it is."""
    if aten_op is None:
        return lambda function: function
    raise NotImplementedError(
        f"torchair.register_fx_node_ge_converter({aten_op}): converters make nodes of a"
        " graph engine that this host has not; give the operator a kernel with"
        " torch.library, which compiled graphs call, or a decomposition with"
        " get_npu_backend(custom_decompositions={...})"
    )


def patch_for_hcom() -> None:
    """PyTorch's own collectives can be traced: there is nothing to patch."""
    logger.warning("there is no need to call patch_for_hcom")
