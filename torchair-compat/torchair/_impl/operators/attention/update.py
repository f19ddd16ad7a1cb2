"""npu_attention_update: joins the attentions of parts of the keys.

After Ascend's API reference of torch_npu, page npu_attention_update."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator

_MOST = 16  # parts


@npu_operator
def npu_attention_update(
    lse: list[Tensor], local_out: list[Tensor], update_type: int
) -> tuple[Tensor, Tensor]:
    """The sum over i of local_out[i] * exp(lse[i] - m), where m is the log of the sum of
    all exp(lse[i]); computed in f32.

    lse          (rows,) f32 of each part, at most 16
    local_out    (rows, d) float of each part
    update_type  1 returns m too, (rows,) f32; 0 an empty tensor in its place

    Rows that no part has keys of, whose lse are all minus infinity, are zeros.
    RuntimeError: another shape, dtype or mode.
    """
    name = "npu_attention_update"
    known = update_type in (0, 1)
    check(known, name, f"update_type must be 0 or 1, got {update_type}")
    fits = 0 < len(lse) <= _MOST and len(lse) == len(local_out)
    text = f"lse and local_out must both have 1 to {_MOST} parts"
    check(fits, name, f"{text}, got {len(lse)} and {len(local_out)}")
    right = local_out[0].dim() == 2
    check(right, name, f"local_out must have 2 dimensions, got {local_out[0].dim()}")
    check_dtype(local_out[0], name, "local_out")
    for number, (sums, part) in enumerate(zip(lse, local_out)):
        check_dtype(sums, name, f"lse[{number}]", (torch.float32,))
        check_dtype(part, name, f"local_out[{number}]", (local_out[0].dtype,))
        check_shape(part, name, f"local_out[{number}]", tuple(local_out[0].shape))
        check_shape(sums, name, f"lse[{number}]", (part.shape[0],))
    out, total = merged(local_out, lse)
    none = total.new_empty(0)
    return out.to(local_out[0].dtype), total if update_type == 1 else none


def merged(parts: Sequence[Tensor], sums: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The attentions (..., d) and their log-sum-exps (...), joined, in f32. A part whose
    sum is minus infinity adds nothing."""
    table = torch.stack(list(sums))
    total = torch.logsumexp(table, 0)
    shares = torch.where(table == -torch.inf, 0.0, (table - total).exp())
    made = torch.zeros_like(parts[0], dtype=torch.float32)
    for part, share in zip(parts, shares):
        wide = part.to(torch.float32)
        weight = share.unsqueeze(-1)
        made = made + torch.where(weight == 0, 0.0, wide * weight)
    return made, total
