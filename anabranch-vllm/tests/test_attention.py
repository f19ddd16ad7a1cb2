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
            max_query_len=tokens,
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
    """vLLM's layer, which only the operator can call here. `changes` are other fields."""

    def __init__(self, **changes) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = HEADS, PAIRS
        self.head_size = self.head_size_v = SIZE
        self.layer_name = "a"
        self.query_quant = self.kv_sharing_target_layer_name = None
        self.attn_backend = SimpleNamespace(forward_includes_kv_cache_update=False)
        for name, value in changes.items():
            setattr(self, name, value)
        attention.join(self)

    def theirs(self, query, key, value, output_shape=None, output_dtype=None):
        return torch.full((1,), 7.0)

    forward = attention.joined(theirs)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, (HEADS + 2 * PAIRS) * SIZE)
        self.attention = Attention()

    def forward(self, x):
        sizes = [HEADS * SIZE, PAIRS * SIZE, PAIRS * SIZE]
        return self.attention(*self.qkv(x).split(sizes, dim=-1))


def expected(model: Layer, x: Tensor, before: int) -> Tensor:
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
    model, x = Layer().eval(), torch.randn(9, 32)
    compiled = torch.compile(
        model,
        backend=anabranch.anabranch,
        options={"watch": "always"},
        dynamic=True,
        fullgraph=True,
    )
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


class Decode:
    """A step in which each request has one new token, in pages that Anabranch's kernel
    knows. The model's own products are random rows."""

    lengths, page, size = (5, 16, 33), 16, 16

    def __init__(self, vllm, dtype=torch.float32) -> None:
        count, pages = len(self.lengths), 3 * len(self.lengths)
        vllm.layer.kv_cache = torch.zeros(
            pages, PAIRS, self.page, 2 * self.size, dtype=dtype
        )
        table = torch.randperm(pages).view(count, 3)
        slots = [
            int(table[row, (n - 1) // self.page]) * self.page + (n - 1) % self.page
            for row, n in enumerate(self.lengths)
        ]
        self.metadata = SimpleNamespace(
            num_actual_tokens=count,
            max_query_len=1,
            query_start_loc=torch.arange(count + 1, dtype=torch.int32),
            seq_lens=torch.tensor(self.lengths, dtype=torch.int32),
            causal=True,
            block_table=table.to(torch.int32),
            scheduler_metadata=None,
            dynamic_causal=None,
        )
        vllm.step.attn_metadata = {"a": self.metadata}
        vllm.step.slot_mapping = {"a": torch.tensor([*slots, -1])}
        heads = (HEADS, PAIRS, PAIRS)
        self.rows = [torch.randn(count + 1, n, self.size, dtype=dtype) for n in heads]
        self.output = torch.full_like(self.rows[0], 7.0)
        self.vllm = vllm

    def run(self) -> Tensor:
        attention.run(self.vllm, *self.rows, self.output, "a")
        return self.output

    def expected(self, window: int) -> Tensor:
        """All tokens but the new one of each request are zeros."""
        query, key, value = (rows[:-1] for rows in self.rows)
        scale = self.vllm.layer.impl.scale
        groups = query.unflatten(1, (PAIRS, -1))
        score = (groups * key.unsqueeze(2)).sum(-1) * scale
        others = self.metadata.seq_lens.clamp(max=window) - 1
        weight = score.exp() / (score.exp() + others.view(-1, 1, 1))
        return (weight.unsqueeze(-1) * value.unsqueeze(2)).flatten(1, 2)


@pytest.fixture
def theirs(vllm, monkeypatch) -> list[str]:
    """The calls of vLLM's kernel that attends, which then does nothing."""
    calls: list[str] = []
    monkeypatch.setattr(vllm, "write", lambda *given: None)
    monkeypatch.setattr(vllm, "attend", lambda *given: calls.append("attend"))
    return calls


@pytest.mark.parametrize("window", [-1, 4])
def test_a_step_of_new_tokens_is_anabranchs(vllm, theirs, window) -> None:
    vllm.layer.impl.sliding_window = window
    step = Decode(vllm)
    found = step.run()
    expected = step.expected(window if window > 0 else max(step.lengths))
    torch.testing.assert_close(found[:-1], expected)
    assert (found[-1] == 7).all()  # padding
    assert not theirs


def fields(**changed):
    """Changes fields of a step, a layer's implementation or a layer."""

    def change(step: Decode) -> None:
        layer = step.vllm.layer
        for name, value in changed.items():
            owners = [x for x in (step.metadata, layer.impl, layer) if hasattr(x, name)]
            setattr(owners[0], name, value)

    return change


@pytest.mark.parametrize(
    "change",
    [
        fields(max_query_len=2),
        fields(seq_lens=torch.tensor([5, 16, 33, 0], dtype=torch.int32)),
        fields(causal=False),
        fields(dynamic_causal=torch.tensor([True])),
        fields(isa="amx"),
        fields(kv_cache_dtype="fp8"),
        fields(alibi_slopes=torch.ones(HEADS)),
        fields(sinks=torch.ones(HEADS)),
        fields(logits_soft_cap=30.0),
    ],
)
def test_a_step_that_the_kernel_does_not_know(vllm, theirs, change) -> None:
    step = Decode(vllm)
    change(step)
    step.run()
    assert theirs == ["attend"]


def test_dtypes_that_the_kernel_does_not_know(vllm, theirs) -> None:
    Decode(vllm, torch.float16).run()
    assert theirs == ["attend"]


def test_few_heads_for_many_threads(vllm, theirs, monkeypatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3 * PAIRS + 1)
    Decode(vllm).run()
    assert theirs == ["attend"]


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


def rows() -> list[Tensor]:
    return [torch.randn(3, heads * SIZE) for heads in (HEADS, PAIRS, PAIRS)]


@pytest.mark.parametrize(
    "changes",
    [
        {"query_quant": nn.Identity()},
        {"kv_sharing_target_layer_name": "b"},
        {"attn_backend": SimpleNamespace(forward_includes_kv_cache_update=True)},
    ],
)
def test_other_layers_are_vllms(changes) -> None:
    assert Attention(**changes)(*rows()) == 7


@pytest.mark.parametrize(
    "call",
    [
        lambda layer, q, k, v: layer(q, None, None),
        lambda layer, q, k, v: layer(q, k, v, output_shape=q.shape),
        lambda layer, q, k, v: layer(q, k, v, output_dtype=torch.float64),
    ],
)
def test_other_calls_are_vllms(call) -> None:
    assert call(Attention(), *rows()) == 7


def test_layers_of_a_model_are_joined(vllm) -> None:
    class Plain(Attention):
        def forward(self, query, key, value):
            return self.theirs(query, key, value)

    layer = Plain()
    assert layer(*rows()) == 7
    for _ in range(2):  # a second model has the same class of layers
        attention.join_all(nn.Sequential(layer), Plain)
        assert layer(*rows()).shape == (3, HEADS * SIZE)


def test_a_layer_is_known_by_its_number(vllm) -> None:
    layers = [Attention(layer_name=name) for name in ("a", "b")]
    vllm.step.no_compile_layers["b"] = vllm.layer
    for layer in layers:
        layer(*rows())  # without metadata vLLM attends
    assert vllm.left_to_vllm == ["a", "b"]
