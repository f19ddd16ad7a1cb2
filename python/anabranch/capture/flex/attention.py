"""The operators of a call of flex_attention, with the results of eager PyTorch's."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Container, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from ...describe.symbols import hint, same
from . import linear, positions


@dataclasses.dataclass
class Call:
    """The arguments of the operator."""

    query: Tensor
    key: Tensor
    value: Tensor
    score_mod: GraphModule
    block_mask: Sequence[Any]
    scale: float
    options: dict[str, Any]
    score_captured: Sequence[Any] = ()
    mask_captured: Sequence[Any] = ()

    @property
    def mask_mod(self) -> GraphModule:
        return self.block_mask[-1]

    @property
    def wide(self) -> torch.dtype:
        """The dtype of scores."""
        is_double = self.query.dtype == torch.float64
        return torch.float64 if is_double else torch.float32


def attend(
    call: Call, used: Container[int], wanted: Sequence[Tensor]
) -> Sequence[Tensor | None]:
    """The results of a call: the attention, and for each row log2 of the sum of its
    weights and the largest score in units of log 2. `used` says which of them are read,
    `wanted` has their types."""
    places = positions.all_of(call.query, call.key)
    shown = _shown(call, places)
    if used == {0}:
        try:
            scores = linear.read(call.score_mod, places, call.score_captured, call.wide)
        except linear.NotLinear:
            pass
        else:
            return [_like(_whole(call, scores, shown), wanted[0]), None, None]
    out, logsumexp, maximum = _composed(call, places, shown)
    return [
        _like(out, wanted[0]),
        logsumexp.to(wanted[1].dtype),
        maximum.to(wanted[2].dtype),
    ]


def _shown(call: Call, places: positions.Places) -> Tensor | None:
    """Which keys a query sees. None: all."""
    if positions.is_always_true(call.mask_mod):
        return None
    return positions.evaluate(call.mask_mod, places, call.mask_captured)


def _whole(call: Call, scores: linear.Linear, shown: Tensor | None) -> Tensor:
    """Attention by one operator."""
    mask = linear.both(shown, scores.shown)
    if scores.bias is not None:
        mask = scores.bias if mask is None else _hidden(scores.bias, mask)
    groups = call.query.shape[1] != call.key.shape[1]
    rows = call.query.shape[0]
    return torch.nn.functional.scaled_dot_product_attention(
        call.query,
        _batches(call.key, rows),
        _batches(call.value, rows),
        mask,
        scale=call.scale * scores.factor,
        enable_gqa=groups,
    )


def _composed(
    call: Call, places: positions.Places, shown: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention by products and a softmax."""
    query, key, value = (
        call.query,
        _repeated(call, call.key),
        _repeated(call, call.value),
    )
    scores = query.to(call.wide) @ key.to(call.wide).transpose(-2, -1) * call.scale
    scores = positions.evaluate(call.score_mod, places, call.score_captured, scores)
    if shown is not None:
        scores = _hidden(scores, shown)
    maximum = scores.amax(-1, keepdim=True)
    is_empty = maximum == -math.inf
    weights = torch.exp(scores - torch.where(is_empty, 0.0, maximum))
    total = weights.sum(-1, keepdim=True)
    weights = weights / torch.where(is_empty, 1.0, total)
    logsumexp = total.log() + maximum
    out = weights.to(query.dtype) @ value
    return out, logsumexp[..., 0] / math.log(2), maximum[..., 0] / math.log(2)


def _hidden(scores: Tensor, shown: Tensor) -> Tensor:
    return torch.where(shown, scores, -math.inf)


def _batches(tensor: Tensor, rows: Any) -> Tensor:
    """Keys or values for each row of the batch; one row of them serves all."""
    if same(tensor.shape[0], rows):
        return tensor
    return tensor.expand(rows, *tensor.shape[1:])


def _repeated(call: Call, tensor: Tensor) -> Tensor:
    """Keys or values for each head of the query."""
    batches, heads, count, size = tensor.shape
    group = call.query.shape[1] // heads
    if group != 1:
        each = tensor.unsqueeze(2).expand(batches, heads, group, count, size)
        tensor = each.reshape(batches, heads * group, count, size)
    return _batches(tensor, call.query.shape[0])


def _like(tensor: Tensor, wanted: Tensor) -> Tensor:
    """The tensor with its dimensions in memory in the order of those of `wanted`."""
    strides = [hint(stride) for stride in wanted.stride()]
    order = sorted(range(tensor.dim()), key=lambda dim: -strides[dim])
    if order == list(range(tensor.dim())):
        return tensor.contiguous()
    back = [order.index(dim) for dim in range(tensor.dim())]
    return tensor.permute(order).contiguous().permute(back)
