"""Functions of torchair's interface that have no meaning on this host. Each says what
to use instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..errors import warn_once
from ..log import logger

__all__ = ["dynamo_export", "patch_for_hcom", "register_fx_node_ge_converter"]


def dynamo_export(*args: Any, model: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: there is no graph engine here that reads .air."""
    raise NotImplementedError(
        "torchair.dynamo_export writes an .air file for the graph engine of an NPU;"
        " on this host anabranch.export(model, path, inputs) writes a package that"
        " runs without PyTorch"
    )


def register_fx_node_ge_converter(aten_op: Any) -> Callable[[Any], Any]:
    """A decorator that returns the converter unchanged. It warns once that compiled
    graphs never call converters here."""
    if aten_op is not None:
        warn_once(
            "register_fx_node_ge_converter has no effect on this host: compiled graphs"
            " call the operator's own kernel (torch.library), or what"
            " get_npu_backend(custom_decompositions={...}) makes of it"
        )
    return lambda function: function


def patch_for_hcom() -> None:
    """PyTorch's own collectives can be traced: there is nothing to patch."""
    logger.warning("there is no need to call patch_for_hcom")
