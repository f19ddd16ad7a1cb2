"""npu_fusion_attention_v2: npu_fusion_attention with rotary parts and biases of distances.

After the schema of Ascend's op-plugin, and its reference of the kernel, page
aclnnFlashAttentionScoreV2, for `pse_type`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_function
from .fusion import Result, Work
from .fusion_masks import FOREVER, PLAIN_PSE, ROOT_SLOPES, Sparse

_NAME = "npu_fusion_attention_v2"


@npu_function
def npu_fusion_attention_v2(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    *,
    pse: Tensor | None = None,
    padding_mask: None = None,
    atten_mask: Tensor | None = None,
    query_rope: Tensor | None = None,
    key_rope: Tensor | None = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tokens: int = FOREVER,
    next_tokens: int = FOREVER,
    inner_precise: int = 0,
    prefix: Sequence[int] | None = None,
    actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
    pse_type: int = 1,
    q_start_idx: Sequence[int] | None = None,
    kv_start_idx: Sequence[int] | None = None,
    softmax_layout: str = "",
    sink: Tensor | None = None,
    dropout_mask: Tensor | None = None,
    seed: int = 0,
    offset: int = 0,
) -> Result:
    """npu_fusion_attention with more arguments.

    query_rope, key_rope  after the elements of each head of query and of key, in the
                 layouts BSND, BNSD and TND
    pse_type     1: pse is added before the scale; 0: after it; 2: pse (head_num,) or
                 (batch, head_num) f32 has the slopes of biases -slope * |row - column|,
                 after the scale; 3: of biases by the root of the distance
    q_start_idx, kv_start_idx  one number: the places of the first row and of the first
                 column, for pse_type 2 and 3

    RuntimeError, NotImplementedError: as npu_fusion_attention raises them.
    """
    if padding_mask is not None:
        raise NotImplementedError(
            f"{_NAME}: padding_mask is not supported on this host"
        )
    known = PLAIN_PSE <= pse_type <= ROOT_SLOPES
    check(known, _NAME, f"pse_type must be from 0 to 3, got {pse_type}")
    starts = (
        _start("q_start_idx", q_start_idx, pse_type),
        _start("kv_start_idx", kv_start_idx, pse_type),
    )
    query, key = _with_rope(input_layout, query, key, query_rope, key_rope)
    rule = atten_mask, sparse_mode, pre_tokens, next_tokens, prefix
    sparse = Sparse(*rule, _NAME)
    operands = query, key, value, head_num, input_layout, pse, scale
    work = Work(*operands, sparse, sink, pse_type, starts)
    work.check(softmax_layout, keep_prob)
    lengths = work.lengths(actual_seq_qlen, actual_seq_kvlen)
    return work.result(lengths, keep_prob, dropout_mask, seed, offset)


def _start(what: str, given: Sequence[int] | None, pse_type: int) -> int:
    if given is None:
        return 0
    check(pse_type >= 2, _NAME, f"{what} is for pse_type 2 and 3, not {pse_type}")
    check(len(given) == 1, _NAME, f"{what} must have one number, got {list(given)}")
    return int(given[0])


def _with_rope(
    layout: str,
    query: Tensor,
    key: Tensor,
    query_rope: Tensor | None,
    key_rope: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Query and key with their rotary parts after each head."""
    pair = (query_rope is None) == (key_rope is None)
    check(pair, _NAME, "query_rope and key_rope must both be given, or none")
    if query_rope is None or key_rope is None:
        return query, key
    known = layout in ("BSND", "BNSD", "TND")
    check(known, _NAME, f"query_rope needs the layout BSND, BNSD or TND, not {layout}")
    made = []
    for what, states, rope in (("query", query, query_rope), ("key", key, key_rope)):
        check_dtype(rope, _NAME, f"{what}_rope", (states.dtype,))
        shape = (*states.shape[:-1], rope.shape[-1])
        check_shape(rope, _NAME, f"{what}_rope", shape)
        made.append(torch.cat([states, rope], -1))
    return made[0], made[1]
