"""activations="int8": products with weights of few bits round what they multiply."""

from __future__ import annotations

import pytest
import torch
from decoders import PLAIN, llama, prompt

from anabranch import llm
from anabranch.llm import quantize
from anabranch.llm.quantized_layers import QuantizedLinear

# Columns of a weight that share a scale.
GROUPS = {"int8": 64, "int4": 32}


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return llama()


def logits(compiled, tokens: torch.Tensor) -> torch.Tensor:
    found = compiled.generate(
        tokens,
        **PLAIN | {"max_new_tokens": 3},
        return_dict_in_generate=True,
        output_logits=True,
    )
    return torch.stack(found.logits, 1)


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return ((found - expected).norm() / expected.norm()).item()


def round_inputs(model, group: int) -> None:
    """Lets each linear layer round its input to bytes."""

    def rounded(layer, inputs):
        # A layer of fewer columns has one scale for all of them.
        columns = min(group, inputs[0].shape[-1])
        groups = inputs[0].unflatten(-1, (-1, columns))
        scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
        return ((groups / scale).round() * scale).flatten(-2)

    for layer in model.modules():
        if isinstance(layer, QuantizedLinear):
            layer.register_forward_pre_hook(rounded)


@pytest.mark.parametrize("kind", ["int8", "int4"])
@pytest.mark.parametrize("length", [9, 70])
def test_logits_are_those_of_a_model_that_rounds(model, kind, length):
    tokens = prompt(1, length)
    arguments = {"quantize": kind, "max_length": 80}
    found = logits(llm.compile(model, activations="int8", **arguments), tokens)[:, 0]
    eager = quantize.quantized(model, kind)
    with torch.no_grad():
        exact = eager(tokens).logits[:, -1]
        round_inputs(eager, GROUPS[kind])
        rounded = eager(tokens).logits[:, -1]
    # A CPU without products of bytes rounds to 16 bits instead.
    assert min(error(found, rounded), error(found, exact)) < 5e-3
    made = logits(llm.compile(model, **arguments), tokens)[:, 0]
    assert error(made, exact) < 1e-5


def test_a_batch_says_what_each_prompt_alone_says(model):
    compiled = llm.compile(
        model, quantize="int4", activations="int8", max_batch=3, max_length=60
    )
    prompts = [prompt(1, length)[0] for length in (5, 17, 40)]
    arguments = PLAIN | {"max_new_tokens": 8}
    alone = [compiled.generate(tokens[None], **arguments)[0] for tokens in prompts]
    together = compiled.generate_batch(prompts, max_new_tokens=8, eos_token_id=None)
    for one, other in zip(alone, together):
        assert torch.equal(one, other)


def test_both_kinds_share_a_folder(model, tmp_path):
    """Each finds its own programs, also at a later start."""
    tokens = prompt(1, 40)
    arguments = {"quantize": "int4", "max_length": 60, "cache_dir": tmp_path}
    found = {}
    for start in range(2):
        for kind in ("exact", "int8"):
            compiled = llm.compile(model, activations=kind, **arguments)
            made = logits(compiled, tokens)
            assert torch.equal(found.setdefault(kind, made), made)
    assert not torch.equal(found["exact"], found["int8"])


def test_another_word_is_refused(model):
    with pytest.raises(ValueError, match="activations must be one of exact, int8; got"):
        llm.compile(model, quantize="int4", activations="int4")
