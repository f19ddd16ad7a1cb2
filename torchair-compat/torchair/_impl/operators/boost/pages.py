"""Pages of a cache in the transformer boost library: loaded, and attended to with a bias.

After the schemas of Ascend's op-plugin."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor

from ..attention.fused_infer import attend
from ..caches.pages import gather_pages
from ..checks import INTEGERS, check, check_dtype, reads_values
from ..definition import atb_operator, writing


@writing("key", "value")
@atb_operator
def npu_paged_cache_load(
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    context_lens: Tensor,
    *,
    seq_starts: Tensor | None = None,
    cumsum: bool = False,
) -> tuple[Tensor, Tensor]:
    """The keys and values of sequences out of the pages of a cache, one sequence after
    another: (tokens, heads, dim) each.

    key_cache, value_cache  (blocks, block_size, heads, dim)
    block_table   (b, pages): the blocks of each sequence
    context_lens  (b,): the rows of each; with `cumsum` (b + 1,): their sums, from 0 on
    seq_starts    (b,): where each begins, rounded down to a page

    The lengths say how large the results are, so a graph cannot have this operator.
    RuntimeError: another shape or dtype, or a graph.
    """
    name = "npu_paged_cache_load"
    text = "context_lens must be known: in a graph call npu_gather_pa_kv_cache"
    check(reads_values(context_lens), name, text)
    check_dtype(context_lens, name, "context_lens", INTEGERS)
    check(context_lens.numel() > 0, name, "context_lens must not be empty")
    tokens = int(context_lens[-1] if cumsum else context_lens.sum())
    given = block_table, context_lens, seq_starts, cumsum
    names = "block_table", "context_lens", "seq_starts"
    made = []
    for what, cache in (("key", key_cache), ("value", value_cache)):
        fits = cache.dim() == 4
        check(fits, name, f"{what}_cache must have 4 dimensions, got {cache.dim()}")
        rows = cache.new_zeros(tokens, *cache.shape[2:])
        gather_pages(name, what, cache, rows, *given, names=names)
        made.append(rows)
    return made[0], made[1]


@writing("out", workspace=True)
@atb_operator
def _npu_paged_attention_v2(
    query: Tensor,
    key_cache: Tensor,
    block_table: Tensor,
    context_lens: Annotated[list[int], "SymInt[]"],
    *,
    value_cache: Tensor | None = None,
    mask: Tensor | None = None,
    num_kv_heads: int = 0,
    num_heads: int = 0,
    scale_value: float = 1.0,
    mask_type: int = 0,
) -> Tensor:
    """softmax(scale_value query key^T + mask) value of one token of each sequence.

    query         (b, num_heads, d) float
    key_cache     (blocks, block_size, num_kv_heads, d), and value_cache with a size of its
                  own; value_cache is needed
    block_table   (b, pages)
    context_lens  the keys of each sequence
    mask          with mask_type 2: what is added to scores, (b, num_heads, 1, keys) or
                  (num_heads, 1, keys); mask_type 0 takes none

    RuntimeError, ValueError: another shape, dtype or length.
    """
    name = "_npu_paged_attention_v2"
    check(query.dim() == 3, name, f"query must have 3 dimensions, got {query.dim()}")
    check(mask_type in (0, 2), name, f"mask_type must be 0 or 2, got {mask_type}")
    fits = (mask is None) == (mask_type == 0)
    check(fits, name, f"mask must be {'None' if mask_type == 0 else 'given'}")
    check(value_cache is not None, name, "value_cache is needed")
    assert value_cache is not None
    kv_heads = num_kv_heads or num_heads
    pages = []
    for what, cache in (("key_cache", key_cache), ("value_cache", value_cache)):
        fits = cache.dim() == 4 and cache.shape[2] == kv_heads
        text = f"{what} must be (blocks, block_size, {kv_heads}, d)"
        check(fits, name, f"{text}, got {tuple(cache.shape)}")
        pages.append(cache.flatten(2))
    options: dict[str, Any] = {
        "num_heads": num_heads,
        "num_key_value_heads": kv_heads,
        "scale": scale_value,
        "input_layout": "BSND",
        "block_table": block_table,
        "actual_seq_lengths_kv": list(context_lens),
    }
    if mask is not None:
        columns = block_table.shape[1] * key_cache.shape[1]
        shift = mask if mask.dim() == 4 else mask.unsqueeze(0)
        short = max(columns - shift.shape[-1], 0)
        options["pse_shift"] = torch.nn.functional.pad(shift, (0, short))
    return attend(query.unsqueeze(1), pages[0], pages[1], options, name)[0].squeeze(1)


@atb_operator
def _npu_paged_attention_v2_get_workspace(
    query: Tensor,
    key_cache: Tensor,
    block_table: Tensor,
    context_lens: Annotated[list[int], "SymInt[]"],
    *,
    value_cache: Tensor | None = None,
    mask: Tensor | None = None,
    num_kv_heads: int = 0,
    num_heads: int = 0,
    scale_value: float = 1.0,
    mask_type: int = 0,
    out: Tensor,
) -> Tensor:
    """An empty tensor: this host needs no memory for _npu_paged_attention_v2."""
    return query.new_empty(0)
