"""Rows in the order of experts that a table of choices (rows, experts) gives them.

After the schemas and tests of op-plugin's operators, and of Megatron's permutation, which
they join."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import INTEGERS, check, check_dtype, check_shape
from ..definition import npu_operator

_TABLES = (torch.bool, torch.int8, torch.uint8)


def _check_map(name: str, routing_map: Tensor | None, rows: int) -> None:
    if routing_map is None:
        return
    check_dtype(routing_map, name, "routing_map", _TABLES)
    right = routing_map.dim() == 2 and routing_map.shape[0] == rows
    text = f"routing_map must be ({rows}, experts), got {tuple(routing_map.shape)}"
    check(right, name, text)


@npu_operator
def npu_moe_token_permute_with_routing_map(
    tokens: Tensor,
    routing_map: Tensor,
    *,
    probs: Tensor | None = None,
    num_out_tokens: int | None = None,
    drop_and_pad: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of tokens in the order of experts, one for each choice.

    tokens          (rows, h)
    routing_map     (rows, experts) bool or bytes: which experts a row chooses
    probs           (rows, experts): their values of the choices are returned too, else an
                    empty tensor
    num_out_tokens  how many choices there are in all
    drop_and_pad    each expert gets num_out_tokens / experts rows: the first that choose
                    it, and then the first that do not

    Returns these rows, probs, and int32 places: with drop_and_pad the row of tokens of
    each result, else the place there of each choice, in the order (rows, experts).
    RuntimeError: another shape, dtype or number of choices.
    """
    name = "npu_moe_token_permute_with_routing_map"
    check_dtype(tokens, name, "tokens")
    check(tokens.dim() == 2, name, f"tokens must have 2 dimensions, got {tokens.dim()}")
    rows = tokens.shape[0]
    _check_map(name, routing_map, rows)
    check_shape(probs, name, "probs", tuple(routing_map.shape))
    check(num_out_tokens is not None, name, "num_out_tokens is needed")
    assert num_out_tokens is not None
    experts = routing_map.shape[1]
    most = rows * experts
    text = f"num_out_tokens must be from 0 to {most}, got {num_out_tokens}"
    check(0 <= num_out_tokens <= most, name, text)
    # Choices first, in the order (experts, rows).
    chosen = (routing_map != 0).t().to(torch.int8)
    if drop_and_pad:
        per_expert = num_out_tokens // experts
        order = chosen.sort(dim=1, descending=True, stable=True).indices
        taken = order[:, :per_expert]
        starts = torch.arange(experts, device=tokens.device).unsqueeze(-1) * rows
        flat, places = (taken + starts).reshape(-1), taken.reshape(-1)
        sources = places
    else:
        order = chosen.reshape(-1).sort(descending=True, stable=True).indices
        flat = order[:num_out_tokens]
        sources = flat % rows
        places = sources.sort(stable=True).indices
    values = tokens.new_empty(0) if probs is None else probs.t().reshape(-1)[flat]
    return tokens[sources], values, places.to(torch.int32)


@npu_operator
def npu_moe_token_unpermute_with_routing_map(
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    restore_shape: list[int],
    *,
    probs: Tensor | None = None,
    routing_map: Tensor | None = None,
    drop_and_pad: bool = False,
) -> Tensor:
    """Adds the rows of npu_moe_token_permute_with_routing_map up at the rows that they
    came from, each times its probability; computed in f32.

    sorted_indices  the third result of that operator
    restore_shape   (rows, h), the shape of the result
    probs           (rows, experts): a factor for each choice; needs routing_map
    drop_and_pad    as that operator had it

    RuntimeError: another shape or dtype.
    """
    name = "npu_moe_token_unpermute_with_routing_map"
    check_dtype(permuted_tokens, name, "permuted_tokens")
    check_dtype(sorted_indices, name, "sorted_indices", INTEGERS)
    kept, width = permuted_tokens.shape
    check_shape(sorted_indices, name, "sorted_indices", (kept,))
    right = len(restore_shape) == 2 and restore_shape[1] == width
    text = f"restore_shape must be (rows, {width}), got {list(restore_shape)}"
    check(right, name, text)
    rows = restore_shape[0]
    _check_map(name, routing_map, rows)
    check_shape(probs, name, "probs", (rows, _experts(routing_map, probs)))
    places = sorted_indices.to(torch.int64)
    if drop_and_pad:
        sources, taken, flat = places, permuted_tokens, None
        if probs is not None:
            per_expert = kept // max(probs.shape[1], 1)
            expert = torch.arange(kept, device=places.device) // max(per_expert, 1)
            flat = places * probs.shape[1] + expert
    else:
        taken = permuted_tokens[places]
        sources, flat = _choices(name, routing_map, probs, rows, kept)
    wide = taken.to(torch.float32)
    if probs is not None:
        wide = wide * probs.to(torch.float32).reshape(-1)[flat].unsqueeze(-1)
    made = wide.new_zeros(rows, width).index_add(0, sources, wide)
    return made.to(permuted_tokens.dtype)


def _experts(routing_map: Tensor | None, probs: Tensor | None) -> int:
    table = probs if routing_map is None else routing_map
    return 0 if table is None else table.shape[-1]


def _choices(
    name: str, routing_map: Tensor | None, probs: Tensor | None, rows: int, kept: int
) -> tuple[Tensor, Tensor | None]:
    """The row of each choice, in the order (rows, experts), and its place in probs."""
    if routing_map is not None:
        chosen = (routing_map != 0).reshape(-1).to(torch.int8)
        flat = chosen.sort(descending=True, stable=True).indices[:kept]
        return flat // routing_map.shape[1], flat
    check(probs is None, name, "probs needs routing_map")
    even = rows > 0 and kept % rows == 0
    text = f"permuted_tokens has {kept} rows, which are no multiple of {rows}"
    check(even, name, text)
    return torch.arange(rows).repeat_interleave(kept // rows), None
