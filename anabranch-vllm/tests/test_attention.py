"""Attention as one operator, over stand-ins for vLLM's layers and kernels. Needs no
vLLM."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import anabranch
from anabranch_vllm import attention

HEADS, PAIRS, SIZE, BLOCK, BLOCKS = 4, 2, 8, 4, 6


@torch.library.custom_op("paged_test::write", mutates_args=())
def write(key: Tensor, value: Tensor, layer_name: str) -> Tensor:
    raise AssertionError("vLLM's own operator")


@write.register_fake
def _(key, value, layer_name):
    return key.new_empty(0)


@torch.library.custom_op("paged_test::attend", mutates_args=("output",))
def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    layer_name: str,
    output_scale: Tensor | None = None,
    kv_cache_dummy_dep: Tensor | None = None,
) -> None:
    raise AssertionError("vLLM's own operator")


class StandIn:
    """vLLM's kernels for one request, whose blocks are given by its table."""

    def __init__(self) -> None:
        implementation = SimpleNamespace(
            scale=SIZE**-0.5,
            alibi_slopes=None,
            sliding_window=-1,
            logits_soft_cap=0.0,
            sinks=None,
            kv_cache_dtype="auto",
        )
        self.layer = SimpleNamespace(
            impl=implementation, isa="vec", _k_scale_float=1.0, _v_scale_float=1.0
        )
        self.new_cache()
        self.left_to_vllm: list[str] = []
        self.plain = True
        self.step = SimpleNamespace(
            attn_metadata=None, slot_mapping={}, no_compile_layers={"a": self.layer}
        )

    def new_cache(self) -> None:
        self.layer.kv_cache = torch.zeros(BLOCKS, PAIRS, BLOCK, 2 * SIZE)

    def prepare(self, table: list[int], before: int, tokens: int) -> None:
        places = [table[i // BLOCK] * BLOCK + i % BLOCK for i in range(before + tokens)]
        metadata = SimpleNamespace(
            num_actual_tokens=tokens,
            query_start_loc=torch.tensor([0, tokens]),
            seq_lens=torch.tensor([before + tokens]),
            causal=True,
            block_table=torch.tensor([table]),
            scheduler_metadata=None,
            dynamic_causal=None,
        )
        self.step.attn_metadata = {"a": metadata}
        self.step.slot_mapping = {"a": torch.tensor(places[before:])}

    def context(self):
        return self.step

    def is_plain(self, layer) -> bool:
        return self.plain

    def write(self, key, value, keys, values, slots, isa, *scales) -> None:
        for row, slot in enumerate(slots.tolist()):
            keys[slot // BLOCK, :, slot % BLOCK] = key[row]
            values[slot // BLOCK, :, slot % BLOCK] = value[row]

    def attend(self, query, keys, values, output, starts, lengths, scale, *rest):
        table, length = rest[3][0], int(lengths[0])
        k, v = (
            part[table].transpose(0, 1).flatten(1, 2)[:, :length]
            for part in (keys, values)
        )
        rows = torch.arange(length - len(query), length)[:, None]
        mask = torch.arange(length) <= rows
        attended = F.scaled_dot_product_attention(
            query.transpose(0, 1), k, v, mask, scale=scale, enable_gqa=True
        )
        output.copy_(attended.transpose(0, 1))

    def whole(self, query, key, value, output, name) -> None:
        self.left_to_vllm.append(name)
        output.zero_()


class Attention(nn.Module):
    """vLLM's layer: two operators, of which the second waits for the first."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, (HEADS + 2 * PAIRS) * SIZE)

    def forward(self, x):
        sizes = [HEADS * SIZE, PAIRS * SIZE, PAIRS * SIZE]
        query, key, value = self.qkv(x).split(sizes, dim=-1)
        output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        output = output.view(-1, HEADS, SIZE)
        key, value = key.view(-1, PAIRS, SIZE), value.view(-1, PAIRS, SIZE)
        done = torch.ops.paged_test.write(key, value, "a")
        torch.ops.paged_test.attend(
            query.view(-1, HEADS, SIZE),
            key,
            value,
            output,
            "a",
            kv_cache_dummy_dep=done,
        )
        return output.flatten(1)


def joined(module, inputs):
    attention.join(module, torch.ops.paged_test.write, torch.ops.paged_test.attend)
    return anabranch.anabranch(module, inputs, options={"watch": "always"})


def expected(model: Attention, x: Tensor, before: int) -> Tensor:
    """Attention of the last rows of `x` to all before them."""
    sizes = [HEADS * SIZE, PAIRS * SIZE, PAIRS * SIZE]
    q, k, v = (
        part.view(len(x), -1, SIZE).transpose(0, 1)
        for part in model.qkv(x).split(sizes, dim=-1)
    )
    attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return attended.transpose(0, 1).flatten(1)[before:]


@pytest.fixture
def vllm(monkeypatch):
    stand_in = StandIn()
    monkeypatch.setattr(attention, "_installed", lambda: stand_in)
    return stand_in


@torch.no_grad()
def test_a_prompt_and_its_tokens(vllm) -> None:
    model, x = Attention().eval(), torch.randn(9, 32)
    compiled = torch.compile(model, backend=joined, dynamic=True, fullgraph=True)
    before = 0
    for tokens in (5, 1, 3):
        vllm.prepare([4, 2, 5], before, tokens)
        end = before + tokens
        found = compiled(x[before:end])
        torch.testing.assert_close(found, expected(model, x[:end], before))
        before = end
    assert not vllm.left_to_vllm


def test_padding_is_not_attended(vllm) -> None:
    query, key = torch.randn(3, HEADS, SIZE), torch.randn(3, PAIRS, SIZE)
    output = torch.full((3, HEADS, SIZE), 7.0)
    vllm.prepare([1], 0, 2)
    attention.run(vllm, query, key, key, output, "a")
    assert (output[2] == 7).all()
    assert not (output[:2] == 7).any()


def test_a_new_cache_is_used(vllm) -> None:
    query, key = torch.ones(1, HEADS, SIZE), torch.ones(1, PAIRS, SIZE)
    for _ in range(2):
        vllm.new_cache()
        vllm.prepare([3], 0, 1)
        attention.run(vllm, query, key, key, torch.empty_like(query), "a")
        pages = vllm.layer.kv_cache.view(BLOCKS, PAIRS, 2 * BLOCK, SIZE)
        assert (pages[3, :, [0, BLOCK]] == 1).all()


def no_metadata(vllm) -> None:
    vllm.step.attn_metadata = None


def a_list(vllm) -> None:
    vllm.step.attn_metadata = [vllm.step.attn_metadata]


def no_slots(vllm) -> None:
    vllm.step.slot_mapping = {}


def another_backend(vllm) -> None:
    vllm.plain = False


@pytest.mark.parametrize("change", [no_metadata, a_list, no_slots, another_backend])
def test_other_steps_are_vllms(vllm, change) -> None:
    query, key = torch.ones(1, HEADS, SIZE), torch.ones(1, PAIRS, SIZE)
    vllm.prepare([3], 0, 1)
    change(vllm)
    attention.run(vllm, query, key, key, torch.empty_like(query), "a")
    assert vllm.left_to_vllm == ["a"]


def calls(function) -> list[str]:
    """The operators of a function after `join`. `out` is the memory of the result."""
    found: list[str] = []

    def look(module, inputs):
        attention.join(module, torch.ops.paged_test.write, torch.ops.paged_test.attend)
        nodes = module.graph.nodes
        found.extend(str(n.target) for n in nodes if n.op == "call_function")
        return lambda *inputs: (torch.zeros(3, HEADS, SIZE),)

    def call(q, k, v):
        memory = torch.empty(3, HEADS * SIZE)
        return function(q, k, v, memory.view(-1, HEADS, SIZE))

    q, k = torch.ones(3, HEADS, SIZE), torch.ones(3, PAIRS, SIZE)
    with torch.no_grad():
        torch.compile(call, backend=look, fullgraph=True)(q, k, k + 1)
    return found


def a_pair(q, k, v, out):
    done = torch.ops.paged_test.write(k, v, "a")
    torch.ops.paged_test.attend(q, k, v, out, "a", kv_cache_dummy_dep=done)
    return out + 1


def another_key(q, k, v, out):
    done = torch.ops.paged_test.write(v, v, "a")
    torch.ops.paged_test.attend(q, k, v, out, "a", kv_cache_dummy_dep=done)
    return out


def another_layer(q, k, v, out):
    done = torch.ops.paged_test.write(k, v, "b")
    torch.ops.paged_test.attend(q, k, v, out, "a", kv_cache_dummy_dep=done)
    return out


def a_scale(q, k, v, out):
    done = torch.ops.paged_test.write(k, v, "a")
    torch.ops.paged_test.attend(q, k, v, out, "a", v, kv_cache_dummy_dep=done)
    return out


def shared_cache(q, k, v, out):
    torch.ops.paged_test.attend(q, k, v, out, "a")
    return out


def seen_before(q, k, v, out):
    out.zero_()
    return a_pair(q, k, v, out)


def seen_as_another_view(q, k, v, out):
    flat = out.view(-1)
    return a_pair(q, k, v, out) + flat.view(out.shape)


def a_part(q, k, v, out):
    return a_pair(q[:2], k[:2], v[:2], out)


def another_dtype(q, k, v, out):
    return a_pair(q, k, v, out.double())


@pytest.mark.parametrize(
    "function",
    [
        another_key,
        another_layer,
        a_scale,
        shared_cache,
        seen_before,
        seen_as_another_view,
        a_part,
        another_dtype,
    ],
)
def test_other_calls_stay(function) -> None:
    assert "anabranch_vllm.attend.default" not in calls(function)


def test_a_pair_is_one_call_without_memory() -> None:
    joined, *rest = calls(a_pair)
    assert joined == "anabranch_vllm.attend.default"
    assert len(rest) == 1  # the addition
