"""Attention as one operator, which also writes the paged cache.

vLLM has two operators in Python for it, and each looks its layer up and takes its cache
apart. The operator here calls the kernels of vLLM's CPU backend with what it keeps of a
layer. vLLM's own functions serve other backends and settings.

No graph sees the paged cache, so to graphs the operator writes nothing: PyTorch traces
them without functionalization."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

from anabranch import extension

SCHEMA = "anabranch_vllm::attend(Tensor query, Tensor key, Tensor value, str layer) -> Tensor"


class Vllm(Protocol):
    """The functions of vLLM that the operator calls."""

    def context(self) -> Any:
        """The context of the step."""

    def is_plain(self, layer: Any) -> bool:
        """Whether the kernels are all that vLLM would call for a layer."""

    def write(self, *arguments: Any) -> None:
        """The kernel that writes the cache."""

    def attend(self, *arguments: Any) -> None:
        """The kernel that attends."""

    def whole(
        self, query: Tensor, key: Tensor, value: Tensor, output: Tensor, layer: str
    ) -> None:
        """vLLM's own way, for any layer."""


class Paged(NamedTuple):
    """The cache of a layer, and the parts of it that the kernels take."""

    cache: Tensor
    keys: Tensor
    values: Tensor


def run(
    vllm: Vllm, query: Tensor, key: Tensor, value: Tensor, output: Tensor, name: str
) -> None:
    """Writes `key` and `value` to the cache of a layer, and attends into `output`."""
    context = vllm.context()
    layer = context.no_compile_layers[name]
    steps, slots = context.attn_metadata, context.slot_mapping
    # Warm-ups have no metadata; speculative decoding has a list.
    if type(steps) is not dict or name not in slots or not vllm.is_plain(layer):
        vllm.whole(query, key, value, output, name)
        return
    step, implementation, paged = steps[name], layer.impl, _paged(layer)
    count = step.num_actual_tokens
    if count != query.shape[0]:
        query, output = query[:count], output[:count]
    scales = layer._k_scale_float, layer._v_scale_float, implementation.kv_cache_dtype
    vllm.write(key, value, paged.keys, paged.values, slots[name], layer.isa, *scales)
    vllm.attend(
        query,
        paged.keys,
        paged.values,
        output,
        step.query_start_loc,
        step.seq_lens,
        implementation.scale,
        step.causal,
        implementation.alibi_slopes,
        implementation.sliding_window,
        step.block_table,
        implementation.logits_soft_cap,
        step.scheduler_metadata,
        implementation.sinks,
        step.dynamic_causal,
        *scales,
    )


def _paged(layer: Any) -> Paged:
    """The parts of the cache of a layer. The layer keeps them until it gets another
    cache."""
    kept: Paged | None = getattr(layer, "anabranch_paged", None)
    if kept is None or kept.cache is not layer.kv_cache:
        blocks, heads, tokens, _ = layer.kv_cache.size()
        pairs = layer.kv_cache.view(blocks, heads, 2 * tokens, -1)
        keys, values = pairs.chunk(2, dim=2)
        kept = layer.anabranch_paged = Paged(layer.kv_cache, keys, values)
    return kept


class Installed:
    """The vLLM of this process."""

    def __init__(self) -> None:
        from vllm.distributed.kv_transfer import has_kv_transfer_group
        from vllm.forward_context import get_forward_context
        from vllm.model_executor.layers.attention import attention
        from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl

        self.context = get_forward_context
        self.transfers = has_kv_transfer_group
        self.theirs = attention
        self.implementation = CPUAttentionBackendImpl
        self.write = torch.ops._C.cpu_attn_reshape_and_cache.default
        self.attend = torch.ops._C.cpu_attention_with_kv_cache.default

    def is_plain(self, layer: Any) -> bool:
        implementation = layer.impl
        return (
            type(implementation) is self.implementation
            and implementation.attn_type == "decoder"
            and (
                implementation.sinks is None
                or implementation.sinks.dtype in (torch.bfloat16, torch.float32)
            )
            and not self.transfers()
        )

    def whole(
        self, query: Tensor, key: Tensor, value: Tensor, output: Tensor, layer: str
    ) -> None:
        self.theirs.unified_kv_cache_update(key, value, layer)
        self.theirs.unified_attention_with_output(query, key, value, output, layer)


@functools.cache
def _installed() -> Installed:
    return Installed()


def _result(query: Tensor, key: Tensor, value: Tensor, layer: str) -> Tensor:
    """Memory for the result: a row of a value's size for each head of a query."""
    return query.new_empty(query.shape[0], query.shape[1], value.shape[2])


def _attend(query: Tensor, key: Tensor, value: Tensor, layer: str) -> Tensor:
    output = _result(query, key, value, layer)
    run(_installed(), query, key, value, output, layer)
    return output


@functools.cache
def register() -> Any:
    """Registers the operator."""
    return extension.define_operator(SCHEMA, _attend, _result)


def join(module: torch.fx.GraphModule, write: Any, attend: Any) -> None:
    """Makes one call of each pair of calls of `write` and `attend`, vLLM's operators, for
    one layer."""
    operator = register()
    for node in list(module.graph.nodes):
        if _calls(node, attend):
            _join(node, write, attend, operator)
    module.recompile()


def _join(node: torch.fx.Node, write: Any, attend: Any, operator: Any) -> None:
    """Joins a call of `attend` with the call of `write` that it waits for. A call with
    more arguments, another key or value, or memory that something else sees, stays."""
    given = _arguments(node, attend)
    before = given.pop("kv_cache_dummy_dep", None)
    if not isinstance(before, torch.fx.Node) or not _calls(before, write):
        return
    if len(before.users) > 1:
        return
    names = ("query", "key", "value", "output", "layer_name")
    wanted = {name: given.pop(name, None) for name in names}
    written = _arguments(before, write)
    if any(value is not None for value in given.values()) or any(
        written[name] != wanted[name] for name in ("key", "value", "layer_name")
    ):
        return
    output = wanted.pop("output")
    if not _is_fresh(output, node, wanted["query"], wanted["value"]):
        return
    graph = node.graph
    with graph.inserting_before(node):
        joined = graph.call_function(operator, tuple(wanted.values()))
    joined.meta = node.meta | {"example_value": output.meta["example_value"]}
    graph.erase_node(node)
    graph.erase_node(before)
    output.replace_all_uses_with(joined)
    memory = output.args[0]
    graph.erase_node(output)
    graph.erase_node(memory)


def _is_fresh(output: Any, node: torch.fx.Node, query: Any, value: Any) -> bool:
    """Whether `output` is a view of new memory that `node` is the first to see, with the
    operator's shape and dtype, and is read after that."""
    memory = output.args[0] if output.op == "call_method" else None
    if not isinstance(memory, torch.fx.Node) or memory.target is not torch.empty:
        return False
    first, *readers = output.users
    if first is not node or not readers or list(memory.users) != [output]:
        return False
    made, asked, given = (x.meta["example_value"] for x in (output, query, value))
    return (
        made.dtype == asked.dtype
        and made.shape[1:] == (asked.shape[1], given.shape[2])
        and statically_known_true(made.shape[0] == asked.shape[0])
    )


def _calls(node: torch.fx.Node, operator: Any) -> bool:
    return node.op == "call_function" and node.target in (operator, operator.default)


def _arguments(node: torch.fx.Node, operator: Any) -> dict[str, Any]:
    names = (argument.name for argument in operator.default._schema.arguments)
    return dict(zip(names, node.args)) | node.kwargs
