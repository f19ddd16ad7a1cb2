"""Attention as one operator, which also writes the paged cache.

vLLM has two operators in Python for it, and each looks its layer up and takes its cache
apart. The operator here keeps the parts of a layer's cache. If each request of a step has
one new token, Anabranch's kernel writes and attends. For prompts, and for what that
kernel does not know, the operator calls the kernels of vLLM's CPU backend. vLLM's own
functions serve other backends and settings.

No graph sees the paged cache, so to graphs the operator writes nothing: PyTorch traces
them without functionalization.

The operator knows a layer by a number in a tensor. A name would be a constant of the
graph, so that PyTorch could not trace equal layers once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from anabranch import extension

SCHEMA = (
    "anabranch_vllm::attend(Tensor query, Tensor key, Tensor value, Tensor layer)"
    " -> Tensor"
)

Forward = Callable[..., Tensor]
_LAYOUTS = ("vec", "vec16")  # vLLM's names of the pages that `attend_pages` knows
_names: list[str] = []  # of the layers in this process, by their numbers


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
    """The cache of a layer, and the parts of it that the kernels take. `is_known`:
    Anabranch's kernel computes what vLLM's would."""

    cache: Tensor
    keys: Tensor
    values: Tensor
    is_known: bool


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
    step, paged, places = steps[name], _paged(layer), slots[name]
    count = step.num_actual_tokens
    if count != query.shape[0]:
        query, output = query[:count], output[:count]
    if paged.is_known and _is_decode(step, paged, query):
        extension.attend_pages(
            query,
            key[:count],
            value[:count],
            output,
            paged.keys,
            paged.values,
            step.block_table,
            step.seq_lens,
            places[:count],
            layer.impl.scale,
            max(layer.impl.sliding_window, 0),
        )
        return
    scales = layer._k_scale_float, layer._v_scale_float, layer.impl.kv_cache_dtype
    vllm.write(key, value, paged.keys, paged.values, places, layer.isa, *scales)
    _attend_by_vllm(vllm, query, output, layer, step, scales)


def _attend_by_vllm(
    vllm: Vllm,
    query: Tensor,
    output: Tensor,
    layer: Any,
    step: Any,
    scales: tuple[float, float, str],
) -> None:
    implementation, paged = layer.impl, _paged(layer)
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
        kept = Paged(layer.kv_cache, keys, values, _is_known(layer, keys))
        layer.anabranch_paged = kept
    return kept


def _is_known(layer: Any, keys: Tensor) -> bool:
    """Whether `attend_pages` reads the cache of a layer as vLLM's kernels leave it, and
    attends as they do."""
    implementation = layer.impl
    return (
        layer.isa in _LAYOUTS
        and implementation.kv_cache_dtype == "auto"
        and keys.dtype in (torch.bfloat16, torch.float32)
        and all(size % 16 == 0 for size in keys.shape[2:])
        and implementation.alibi_slopes is None
        and implementation.sinks is None
        and not implementation.logits_soft_cap
    )


def _is_decode(step: Any, paged: Paged, query: Tensor) -> bool:
    """Whether each request of a step has one new token, and there are key heads for all
    threads: vLLM's kernel also shares the tokens of a long request."""
    return (
        step.max_query_len == 1
        and len(step.seq_lens) == len(query)
        and step.causal
        and step.dynamic_causal is None
        and query.dtype == paged.keys.dtype
        and len(query) * paged.keys.shape[1] >= torch.get_num_threads()
    )


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


def _result(query: Tensor, key: Tensor, value: Tensor, layer: Tensor) -> Tensor:
    """Memory for the result: a row of a value's size for each head of a query."""
    return query.new_empty(query.shape[0], query.shape[1], value.shape[2])


def _attend(query: Tensor, key: Tensor, value: Tensor, layer: Tensor) -> Tensor:
    output = _result(query, key, value, layer)
    run(_installed(), query, key, value, output, _names[int(layer)])
    return output


@functools.cache
def register() -> Any:
    """Registers the operator."""
    return extension.define_operator(SCHEMA, _attend, _result)


def join_all(model: nn.Module, kind: Any) -> None:
    """Has the layers of a model call the operator, in graphs and outside of them. `kind`
    is vLLM's class of attention layers."""
    if not hasattr(kind.forward, "anabranch_theirs"):
        kind.forward = joined(kind.forward)
    for layer in model.modules():
        if isinstance(layer, kind):
            join(layer)


def join(layer: Any) -> None:
    """Has a layer call the operator, if it has a cache of its own that it writes."""
    if (
        layer.query_quant is None
        and layer.kv_sharing_target_layer_name is None
        and not layer.attn_backend.forward_includes_kv_cache_update
    ):
        layer.anabranch_number = torch.tensor(len(_names))
        _names.append(layer.layer_name)


def joined(theirs: Forward) -> Forward:
    """The `forward` of vLLM's attention layers, for those that `join` has prepared and
    all others."""
    operator = register()

    def forward(
        self: Any,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        output_shape: torch.Size | None = None,
        output_dtype: torch.dtype | None = None,
    ) -> Tensor:
        number = getattr(self, "anabranch_number", None)
        is_plain = output_shape is None and output_dtype in (None, query.dtype)
        if number is None or key is None or value is None or not is_plain:
            return theirs(self, query, key, value, output_shape, output_dtype)
        output: Tensor = operator(
            query.view(-1, self.num_heads, self.head_size),
            key.view(-1, self.num_kv_heads, self.head_size),
            value.view(-1, self.num_kv_heads, self.head_size_v),
            number,
        )
        return output.flatten(1)

    forward.anabranch_theirs = theirs  # type: ignore[attr-defined]
    return forward
