"""A decoder of many equal layers over paged caches, as serving scripts for NPUs write it."""

from __future__ import annotations

import dataclasses

import torch
import torch.distributed as dist
from torch import Tensor, nn

import torch_npu
import torchair


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Of a decoder. `experts` is 0 for a dense one."""

    layers: int
    experts: int = 0
    chosen: int = 2
    hidden: int = 64
    heads: int = 4
    groups: int = 2
    inner: int = 64
    vocabulary: int = 128
    tokens: int = 2
    pages: int = 4
    page: int = 16
    dtype: torch.dtype = torch.bfloat16

    @property
    def head(self) -> int:
        return self.hidden // self.heads


@dataclasses.dataclass
class Step:
    """What all layers share in one step of decode."""

    table: Tensor
    slots: Tensor
    lengths: Tensor | list[int]
    rows: Tensor | list[int]
    cosine: Tensor
    sine: Tensor


def step(sizes: Sizes, length: int = 5, listed: bool = True) -> Step:
    """A step of `tokens` sequences that have `length` tokens each. `listed`: lengths are
    lists, as scripts for npugraph_ex have them; else tensors, as those for GE do."""
    lengths, rows = [length] * sizes.tokens, [*range(1, sizes.tokens + 1)]
    pages = torch.arange(sizes.tokens * 2, dtype=torch.int32).reshape(sizes.tokens, 2)
    place = pages[:, (length - 1) // sizes.page] * sizes.page
    angles = torch.arange(sizes.tokens * sizes.head).reshape(sizes.tokens, 1, -1)
    return Step(
        table=pages,
        slots=place.long() + (length - 1) % sizes.page,
        lengths=lengths if listed else torch.tensor(lengths),
        rows=rows if listed else torch.tensor(rows),
        cosine=angles.cos().to(sizes.dtype),
        sine=angles.sin().to(sizes.dtype),
    )


def _weight(sizes: Sizes, *shape: int) -> nn.Parameter:
    values = torch.randn(shape) * shape[-2] ** -0.5
    return nn.Parameter(values.to(sizes.dtype), requires_grad=False)


class Norm(nn.Module):
    """npu_rms_norm, or the operator that adds first."""

    def __init__(self, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=dtype), requires_grad=False)

    def forward(self, x: Tensor, before: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if before is None:
            return torch_npu.npu_rms_norm(x, self.weight, 1e-6)[0], x
        y, _, total = torch_npu.npu_add_rms_norm(before, x, self.weight, 1e-6)
        return y, total


class Attention(nn.Module):
    """Grouped heads, a norm of each head, rotation, and pages."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        width = (sizes.heads + 2 * sizes.groups) * sizes.head
        self.qkv = _weight(sizes, sizes.hidden, width)
        self.out = _weight(sizes, sizes.hidden, sizes.hidden)
        self.norms = nn.ModuleList([Norm(sizes.head, sizes.dtype) for _ in range(2)])
        shape = (sizes.pages, sizes.page, sizes.groups, sizes.head)
        self.register_buffer("keys", torch.zeros(shape, dtype=sizes.dtype))
        self.register_buffer("values", torch.zeros(shape, dtype=sizes.dtype))

    def forward(self, x: Tensor, at: Step) -> Tensor:
        sizes, rows = self.sizes, x.shape[0]
        widths = [count * sizes.head for count in (sizes.heads, sizes.groups)]
        parts = (x @ self.qkv).split([*widths, widths[1]], dim=1)
        query, key, value = (part.reshape(rows, -1, sizes.head) for part in parts)
        query, key = self.norms[0](query)[0], self.norms[1](key)[0]
        query, key = torch_npu.npu_apply_rotary_pos_emb(
            query, key, at.cosine, at.sine, layout="TND"
        )
        for cache, new in ((self.keys, key), (self.values, value)):
            flat = cache.view(-1, sizes.groups, sizes.head)
            torch_npu.npu_scatter_nd_update_(flat, at.slots.view(-1, 1), new)
        graph = isinstance(at.lengths, Tensor) and torch.compiler.is_compiling()
        operators = torchair.ops if graph else torch.ops.npu
        made, _ = operators.npu_fused_infer_attention_score_v2(
            query,
            self.keys.view(*self.keys.shape[:2], -1),
            self.values.view(*self.values.shape[:2], -1),
            num_query_heads=sizes.heads,
            num_key_value_heads=sizes.groups,
            softmax_scale=sizes.head**-0.5,
            input_layout="TND",
            actual_seq_qlen=at.rows,
            actual_seq_kvlen=at.lengths,
            block_table=at.table,
            block_size=sizes.page,
        )
        return made.reshape(rows, -1) @ self.out


class Dense(nn.Module):
    """A gated layer."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.up = _weight(sizes, sizes.hidden, 2 * sizes.inner)
        self.down = _weight(sizes, sizes.inner, sizes.hidden)

    def forward(self, x: Tensor) -> Tensor:
        return torch_npu.npu_swiglu(x @ self.up) @ self.down


class Experts(nn.Module):
    """Routing, grouped products, and the sum of the chosen experts. Each of several
    ranks has a part of each expert."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.gate = _weight(sizes, sizes.hidden, sizes.experts)
        self.up = _weight(sizes, sizes.experts, sizes.hidden, 2 * sizes.inner)
        self.down = _weight(sizes, sizes.experts, sizes.inner, sizes.hidden)

    def forward(self, x: Tensor) -> Tensor:
        sizes = self.sizes
        scores, chosen, _ = torch_npu.npu_moe_gating_top_k_softmax(
            x @ self.gate, None, k=sizes.chosen
        )
        scores = scores / scores.sum(-1, keepdim=True)
        rows, places, counts, _ = torch_npu.npu_moe_init_routing_v2(
            x,
            expert_idx=chosen.to(torch.int32),
            active_num=x.shape[0] * sizes.chosen,
            expert_num=sizes.experts,
            expert_tokens_num_type=1,
            expert_tokens_num_flag=True,
            active_expert_range=[0, sizes.experts],
            quant_mode=-1,
        )
        inner = torch_npu.npu_swiglu(self._products(rows, self.up, counts))
        made = torch_npu.npu_moe_finalize_routing(
            self._products(inner, self.down, counts),
            skip1=None,
            skip2=None,
            bias=None,
            scales=scores.to(x.dtype),
            expanded_src_to_dst_row=places,
            export_for_source_row=None,
            drop_pad_mode=2,
        )
        if dist.is_initialized():
            dist.all_reduce(made)
        return made

    def _products(self, x: Tensor, weight: Tensor, counts: Tensor) -> Tensor:
        return torch_npu.npu_grouped_matmul(
            [x],
            [weight],
            group_list=counts,
            group_type=0,
            group_list_type=1,
            split_item=3,
        )[0]


class Layer(nn.Module):
    """Attention and what follows it, each after a norm of the sum."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.norms = nn.ModuleList([Norm(sizes.hidden, sizes.dtype) for _ in range(2)])
        self.attention = Attention(sizes)
        self.inner = (Experts if sizes.experts else Dense)(sizes)

    def forward(
        self, x: Tensor, total: Tensor | None, at: Step
    ) -> tuple[Tensor, Tensor]:
        x, total = self.norms[0](x, total)
        x, total = self.norms[1](self.attention(x, at), total)
        return self.inner(x), total


class Decoder(nn.Module):
    """Logits of one step of decode."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.embedding = _weight(sizes, sizes.vocabulary, sizes.hidden)
        self.layers = nn.ModuleList([Layer(sizes) for _ in range(sizes.layers)])
        self.norm = Norm(sizes.hidden, sizes.dtype)

    def forward(self, tokens: Tensor, at: Step) -> Tensor:
        x, total = self.embedding[tokens], None
        for layer in self.layers:
            x, total = layer(x, total, at)
        return self.norm(x, total)[0] @ self.embedding.t()
