"""Older attention operators, computed by npu_fused_infer_attention_score.

After Ascend's API reference of torch_npu: pages npu_prompt_flash_attention and
npu_incre_flash_attention."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..definition import npu_operator_of
from .fused_infer import npu_fused_infer_attention_score


def _attend(
    name: str, query: Tensor, key: Tensor, value: Tensor, options: dict[str, Any]
) -> Tensor:
    given = {k: v for k, v in options.items() if v is not None}
    if "padding_mask" in given:
        raise NotImplementedError(f"{name}: padding_mask is not supported")
    given["scale"] = given.pop("scale_value")
    return npu_fused_infer_attention_score(query, key, value, **given)[0]


@npu_operator_of(
    "(Tensor query, Tensor key, Tensor value, *, Tensor? padding_mask=None,"
    " Tensor? atten_mask=None, Tensor? pse_shift=None, SymInt[]? actual_seq_lengths=None,"
    " Tensor? deq_scale1=None, Tensor? quant_scale1=None, Tensor? deq_scale2=None,"
    " Tensor? quant_scale2=None, Tensor? quant_offset2=None, int num_heads=1,"
    " float scale_value=1.0, int pre_tokens=2147483647, int next_tokens=0,"
    ' str input_layout="BSH", int num_key_value_heads=0,'
    " SymInt[]? actual_seq_lengths_kv=None, int sparse_mode=0) -> Tensor"
)
def npu_prompt_flash_attention(
    query: Tensor, key: Tensor, value: Tensor, **options: Any
) -> Tensor:
    """The attention of whole prompts: the first result of
    npu_fused_infer_attention_score.

    `scale_value` is its scale; `deq_scale1` and `deq_scale2` are its dequant_scale1 and
    dequant_scale2. With a mask of mode 0, `next_tokens` 0 makes it causal. Raises as that
    operator does. NotImplementedError: a padding mask.
    """
    for number in ("1", "2"):
        options[f"dequant_scale{number}"] = options.pop(f"deq_scale{number}", None)
    options = {"scale_value": 1.0, "pre_tokens": 2147483647, "next_tokens": 0} | options
    return _attend("npu_prompt_flash_attention", query, key, value, options)


@npu_operator_of(
    "(Tensor query, Tensor key, Tensor value, *, Tensor? padding_mask=None,"
    " Tensor? atten_mask=None, Tensor? pse_shift=None, SymInt[]? actual_seq_lengths=None,"
    " Tensor? antiquant_scale=None, Tensor? antiquant_offset=None,"
    " Tensor? block_table=None, Tensor? dequant_scale1=None, Tensor? quant_scale1=None,"
    " Tensor? dequant_scale2=None, Tensor? quant_scale2=None,"
    " Tensor? quant_offset2=None, Tensor? kv_padding_size=None, int num_heads=1,"
    ' float scale_value=1.0, str input_layout="BSH", int num_key_value_heads=0,'
    " int block_size=0, int inner_precise=1) -> Tensor"
)
def npu_incre_flash_attention(
    query: Tensor, key: Tensor, value: Tensor, **options: Any
) -> Tensor:
    """The attention of one new token for each sequence: the first result of
    npu_fused_infer_attention_score.

    `scale_value` is its scale; `actual_seq_lengths` are the lengths of keys and values.
    Raises as that operator does. RuntimeError: more than one token.
    """
    name = "npu_incre_flash_attention"
    layout = options.get("input_layout", "BSH")
    if query.dim() not in (3, 4):
        raise RuntimeError(
            f"{name}: query must have 3 or 4 dimensions, got {query.dim()}"
        )
    tokens = query.shape[2] if layout == "BNSD" else query.shape[1]
    if tokens != 1:
        raise RuntimeError(
            f"{name}: query must have one token a sequence, got {tokens}"
        )
    lengths = options.pop("actual_seq_lengths", None)
    options = {"scale_value": 1.0} | options | {"actual_seq_lengths_kv": lengths}
    return _attend(name, query, key, value, options)
