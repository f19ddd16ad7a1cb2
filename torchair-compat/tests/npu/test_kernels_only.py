"""Operators of decode steps compile to kernels: no part of them is a call of PyTorch."""

from __future__ import annotations

import pytest
import torch

import anabranch
from operator_calls import CALLS, operator
from pictures import compiled

HOT = (
    "_npu_flash_attention",
    "_npu_paged_attention",
    "_npu_paged_attention_splitfuse",
    "_npu_reshape_and_cache",
    "npu_attention_update",
    "npu_gather_pa_kv_cache",
    "npu_gather_selection_kv_cache",
    "npu_grouped_matmul_finalize_routing",
    "npu_grouped_matmul_swiglu_quant_v2",
    "npu_interleave_rope",
    "npu_kv_quant_sparse_flash_attention",
    "npu_kv_rmsnorm_rope_cache_v2",
    "npu_lightning_indexer",
    "npu_mla_prolog_v3",
    "npu_moe_init_routing_v2",
    "npu_moe_re_routing",
    "npu_mrope",
    "npu_quant_lightning_indexer",
    "npu_recurrent_gated_delta_rule",
    "npu_sparse_flash_attention",
)


def in_graph(name, call) -> None:
    """Runs a call in a graph. Its tensors are inputs of the graph."""
    tensors = {k: v.clone() for k, v in call.items() if isinstance(v, torch.Tensor)}
    others = {key: value for key, value in call.items() if key not in tensors}

    def function(*given):
        return operator(name)(**dict(zip(tensors, given)), **others)

    torch._dynamo.reset()
    anabranch.counters.reset()
    compiled(function)(*tensors.values())


@pytest.mark.parametrize("name", HOT)
def test_no_call_of_pytorch(name) -> None:
    calls = CALLS[name]
    for call in calls if isinstance(calls, list) else [calls]:
        in_graph(name, call)
        assert anabranch.counters.eager_graphs == 0
        assert anabranch.counters.fallback_calls == 0
