"""npu_moe_init_routing_quant: npu_moe_init_routing_v2 with rows of int8.

After the schema, the checks and the tests of op-plugin."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype
from ..definition import npu_operator
from .init_routing import npu_moe_init_routing_v2

_ENDS, _COUNTS = 1, 2  # expert_tokens_num_mode


@npu_operator
def npu_moe_init_routing_quant(
    x: Tensor,
    expert_idx: Tensor,
    *,
    scale: Tensor | None = None,
    offset: Tensor | None = None,
    active_num: int = 1024,
    expert_capacity: int = 0,
    expert_num: int = 256,
    drop_pad_mode: int = 0,
    expert_tokens_num_mode: int = 0,
    expert_tokens_before_capacity_flag: bool = False,
    quant_mode: int = 1,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The rows of x in the order of experts as int8, one for each choice.

    x           (rows, h) floats
    expert_idx  (rows, k) int32
    active_num  how many rows are returned; 0: rows * k
    drop_pad_mode  1: each expert has `expert_capacity` rows. Rows beyond are left out,
                   and zeros fill up
    quant_mode  0: by `scale` (1,) and `offset` (1,) or none. 1: with a scale each, after `scale`
                (expert_num, h) or (1, h)

    Returns five tensors; one that is not asked for has no elements:

    1. the rows, (rows * k, h), or (experts, capacity, h) in drop_pad_mode 1
    2. the place of each choice i * k + j there, (rows * k,) int32; -1: there is none
    3. without drop_pad_mode, for each expert the end of its rows
       (`expert_tokens_num_mode` 1) or their number (2), int32
    4. in drop_pad_mode 1 with `expert_tokens_before_capacity_flag`, the number of rows of
       each expert before any is left out, int32
    5. in quant_mode 1, the scales of the rows, f32

    RuntimeError: another shape, dtype or mode.
    """
    name = "npu_moe_init_routing_quant"
    check_dtype(x, name, "x", FLOATS)
    for what, value, allowed in (
        ("drop_pad_mode", drop_pad_mode, (0, 1)),
        ("expert_tokens_num_mode", expert_tokens_num_mode, (0, _ENDS, _COUNTS)),
        ("quant_mode", quant_mode, (0, 1)),
    ):
        check(value in allowed, name, f"{what} must be one of {allowed}, got {value}")
    check(active_num >= 0, name, f"active_num must not be negative, got {active_num}")
    if quant_mode == 0 and scale is not None and offset is None:
        offset = torch.zeros_like(scale)
    values, places, sizes, scales = npu_moe_init_routing_v2(
        x,
        expert_idx,
        scale=scale,
        offset=offset,
        active_num=active_num,
        expert_capacity=expert_capacity,
        expert_num=expert_num,
        drop_pad_mode=drop_pad_mode,
        expert_tokens_num_type=0 if expert_tokens_num_mode == _ENDS else 1,
        quant_mode=quant_mode,
        active_expert_range=[0, expert_num],
    )
    none, sizes = x.new_empty(0, dtype=torch.int32), sizes.to(torch.int32)
    counted = drop_pad_mode == 0 and expert_tokens_num_mode > 0
    before = drop_pad_mode == 1 and expert_tokens_before_capacity_flag
    return (
        values,
        places,
        sizes if counted else none,
        sizes if before else none,
        scales if quant_mode == 1 else none.to(torch.float32),
    )
