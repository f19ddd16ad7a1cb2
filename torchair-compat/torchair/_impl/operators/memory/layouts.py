"""torchair's functions on memory formats, over those of torch_npu."""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

from ...errors import warn_once
from ...log import logger
from .formats import Format, has_blocks, npu_format_cast, npu_format_cast_

__all__ = ["npu_format_cast_via_cpu", "use_internal_format_weight"]


def use_internal_format_weight(model: nn.Module) -> None:
    """Gives weights of linear layers the format FRACTAL_NZ, and float16 weights of
    convolutions with one group FRACTAL_Z.

    Values stay the same. Only FRACTAL_NZ of matrices of bf16, f16 and int8 is more than
    a tag on this host. RuntimeError: `.npu()` has not moved a weight.
    """
    if "torch_npu" not in sys.modules:
        logger.error("use_internal_format_weight needs torch_npu: import it first")
        return
    cast = []
    for module in model.modules():
        if isinstance(module, nn.Linear):
            cast.append(_cast(module.weight, Format.FRACTAL_NZ))
        elif isinstance(module, nn.Conv2d) and _is_half_of_one_group(module):
            cast.append(_cast(module.weight, Format.FRACTAL_Z))
    if not all(map(has_blocks, cast)):
        warn_once(
            "use_internal_format_weight has no effect on this host but for a tag, on"
            " weights that are no matrices of bfloat16, float16 or int8"
        )


def _is_half_of_one_group(module: nn.Conv2d) -> bool:
    return module.groups == 1 and module.weight.dtype == torch.float16


def _cast(weight: Tensor, number: Format) -> Tensor:
    if not getattr(weight, "_npu_placed", False):
        raise RuntimeError("Cpu weight is not supported: call model.npu() first")
    return npu_format_cast_(weight, number)


def npu_format_cast_via_cpu(
    self: Tensor,
    acl_format: int,
    customize_dtype: int | None = None,
    input_dtype: int | None = None,
) -> Tensor:
    """npu_format_cast, with its arguments and results."""
    return npu_format_cast(self, acl_format, customize_dtype, input_dtype)
