"""A cache of keys and values in integers or floats of eight bits."""

from __future__ import annotations

import copy

import pytest
import torch
from decoders import PLAIN, gpt2, llama, prompt

import anabranch
from anabranch import llm
from anabranch.llm import kept_states
from anabranch.llm.key_values import KeyValues

CAPACITY = 40
BYTES = {"max_length": CAPACITY, "kv_cache_dtype": "int8"}
FLOATS = ("fp8_e4m3", "fp8_e5m2")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return llama()


def of_eager(model, tokens, rows=1, kind="int8", **arguments):
    """PyTorch's answer over the same cache."""
    cache = KeyValues(model, CAPACITY, kept_states.KINDS[kind]).make(rows)
    arguments = PLAIN | {"max_new_tokens": 12} | arguments
    return model.generate(tokens, past_key_values=cache, **arguments)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1, 7, 64])
def test_an_element_is_off_by_half_a_step_at_most(size, dtype):
    """A step is a 127th of the row's largest number."""
    sizes = torch.logspace(-30, 30, 61).view(-1, 1)
    states = (torch.randn(61, size) * sizes).to(dtype)
    states[7], states[9, 1:] = 0, 0
    numbers, scales = kept_states.to_bytes(states, torch.int8)
    found = kept_states.read((numbers, scales), torch.float64, lambda kept: kept)
    off = (found - states.double()).abs()
    step = states.double().abs().amax(-1, keepdim=True) / 127
    assert (off <= step * (0.5 + 1e-5)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", FLOATS)
def test_floats_are_off_by_half_of_their_last_bit_at_most(kind, dtype):
    """Of a number's own size, or of the least one for numbers below the normal ones."""
    sizes = torch.logspace(-30, 30, 61).view(-1, 1)
    states = (torch.randn(61, 64) * sizes).to(dtype)
    states[7], states[9, 1:], states[11, ::2] = 0, 0, states[11, ::2] * 2**-8
    stored = kept_states.KINDS[kind]
    numbers, scales = kept_states.to_bytes(states, stored)
    assert numbers.dtype == stored and numbers.float().isfinite().all()
    found = kept_states.read((numbers, scales), torch.float64, lambda kept: kept)
    off = (found - states.double()).abs()
    limits = torch.finfo(stored)
    half = states.double().abs() * limits.eps / 2
    least = scales.double() * limits.smallest_normal * limits.eps / 2
    assert (off <= torch.maximum(half, least) * (1 + 1e-5)).all()


@pytest.mark.parametrize("kind", kept_states.KINDS)
def test_graphs_keep_the_numbers_of_pytorch(kind):
    """All patterns of bits that a product of a row may have become the same bytes."""
    stored = kept_states.KINDS[kind]
    torch.manual_seed(0)
    states = torch.randn(2, 5, 512) * torch.logspace(-6, 6, 512)
    # Ties, and numbers around the border between normal and other ones.
    ties = torch.arange(512) / 16 * 2.0 ** torch.arange(-12, -2).repeat(52)[:512]
    states[0, 0], states[0, 0, 0] = ties, kept_states.LARGEST[stored]
    index = torch.tensor([6, 1, 4, 0, 3])

    def step(numbers, scales):
        kept = numbers, scales
        kept_states.write(kept, 1, index, states)
        return kept_states.read(kept, torch.float32, lambda part: part[:, :5])

    ours, theirs = (
        kept_states.empty((2, 8, 512), torch.float32, stored) for _ in range(2)
    )
    with torch.no_grad():
        found = torch.compile(step, backend="anabranch", fullgraph=True)(*ours)
        expected = step(*theirs)
    assert torch.equal(found, expected)
    for one, other in zip(ours, theirs):
        assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))
    # The memory is written in place: nothing of its size is made beside it.
    report = anabranch.last_report()
    assert report["fallbacks"] == [] and report["arena_bytes"] < ours[0].nbytes


@pytest.mark.parametrize("kind", kept_states.KINDS)
def test_rows_without_finite_numbers_stay_without(kind):
    states = torch.tensor([[1.0, float("inf")], [float("nan"), 2.0]])
    kept = kept_states.to_bytes(states, kept_states.KINDS[kind])
    found = kept_states.read(kept, torch.float32, lambda part: part)
    assert not found.isfinite().all(-1).any()


@pytest.mark.parametrize("make", [llama, gpt2])
@pytest.mark.parametrize("arguments", [{}, {"num_beams": 3}], ids=["greedy", "beams"])
def test_tokens_are_those_of_pytorch_over_the_same_cache(make, arguments):
    torch.manual_seed(0)
    model = make()
    compiled = llm.compile(model, max_batch=3, **BYTES)
    rows = arguments.get("num_beams", 1)
    for length in (1, 19):
        tokens = prompt(1, length)
        found = compiled.generate(tokens, max_new_tokens=12, **PLAIN, **arguments)
        assert torch.equal(found, of_eager(model, tokens, rows, **arguments))
    assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize("kind", FLOATS)
def test_floats_of_eight_bits_have_the_tokens_of_pytorch(model, kind, tmp_path):
    options = {"max_length": CAPACITY, "kv_cache_dtype": kind}
    compiled = llm.compile(model, max_batch=2, **options)
    tokens = prompt(1, 19)
    found = compiled.generate(tokens, max_new_tokens=12, **PLAIN)
    assert torch.equal(found, of_eager(model, tokens, kind=kind))
    (together,) = compiled.generate_batch([tokens[0].tolist()], max_new_tokens=12)
    assert torch.equal(together, found[0])
    assert anabranch.counters.fallback_calls == 0
    llm.export(model, tmp_path / "model.anb", sizes=(1, 32), **options)
    package = anabranch.load(tmp_path / "model.anb")
    zero = torch.zeros(1, dtype=torch.long)
    padded = torch.nn.functional.pad(tokens, (0, 13))
    logits = package(tokens=padded, start=zero, last=zero + 18)
    assert int(logits[0].argmax()) == found[0, 19]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_are_as_near_as_those_of_pytorch_over_the_same_cache(dtype):
    torch.manual_seed(0)
    exact, tokens = llama(), prompt(1, 30)
    model = copy.deepcopy(exact).to(dtype)
    compiled = llm.compile(model, **BYTES)
    expected = exact(tokens).logits

    def off(run):
        cache = compiled._key_values.make(1)
        found = run(tokens, past_key_values=cache).logits
        return (found - expected).norm() / expected.norm()

    with torch.no_grad():
        ours, theirs = off(compiled), off(model)
    assert 0 < ours < 1.3 * theirs and ours < 0.1


def test_batches_and_packages_have_the_same_tokens(model, tmp_path):
    compiled = llm.compile(model, max_batch=2, **BYTES)
    prompts = [prompt(1, length) for length in (5, 21)]
    alone = [compiled.generate(p, max_new_tokens=9, **PLAIN)[0] for p in prompts]
    together = compiled.generate_batch(
        [p[0].tolist() for p in prompts], max_new_tokens=9
    )
    assert all(map(torch.equal, together, alone))
    llm.export(model, tmp_path / "model.anb", sizes=(1,), **BYTES)
    package = anabranch.load(tmp_path / "model.anb")
    assert {str(value.dtype) for value in package.state.values()} == {"int8", "float32"}
    for expected, given in zip(alone, prompts):
        package.state.reset()
        last, found = torch.zeros(1, dtype=torch.long), given[0].tolist()
        for at in range(len(expected) - 1):
            step = torch.tensor([[found[at]]])
            logits = package(tokens=step, start=torch.tensor([at]), last=last)
            if at == len(found) - 1:
                found.append(int(logits[0].argmax()))
        assert found == expected.tolist()


def test_the_cache_is_smaller_and_empty_between_calls(model):
    compiled = llm.compile(model, **BYTES)
    compiled.generate(prompt(1, 9), max_new_tokens=9, **PLAIN)
    (memory,) = compiled._key_values._spare
    tensors = [tensor for layer in memory.layers for tensor in layer.tensors()]
    assert not any(tensor.any() for tensor in tensors)
    assert sum(tensor.nbytes for tensor in tensors) == compiled._key_values.bytes(1)
    floats = KeyValues(model, CAPACITY).bytes(1)
    size = model.config.hidden_size // model.config.num_attention_heads
    assert compiled._key_values.bytes(1) / floats == (size + 4) / (4 * size)


def test_all_kinds_of_cache_share_a_folder(model, tmp_path):
    """Programs of one kind of cache are not those of the other."""
    tokens = prompt(1, 9)
    expected = {
        None: model.generate(tokens, max_new_tokens=12, **PLAIN),
        **{kind: of_eager(model, tokens, kind=kind) for kind in ("int8", "fp8_e4m3")},
    }
    for kind in (*expected, *expected):
        settings = {"max_length": CAPACITY, "cache_dir": tmp_path}
        compiled = llm.compile(model, kv_cache_dtype=kind, **settings)
        found = compiled.generate(tokens, max_new_tokens=12, **PLAIN)
        assert torch.equal(found, expected[kind])
        together = compiled.generate_batch([tokens[0].tolist()], max_new_tokens=12)
        assert torch.equal(together[0], found[0])


@pytest.mark.parametrize("kind", ["int4", "fp8", 8])
def test_unknown_kinds_are_refused(model, kind, tmp_path):
    for call in (
        lambda: llm.compile(model, kv_cache_dtype=kind),
        lambda: llm.export(model, tmp_path / "model.anb", kv_cache_dtype=kind),
    ):
        with pytest.raises(ValueError, match="kv_cache_dtype must be None or one of"):
            call()
