"""Heads of EAGLE-3: their guesses are those of a reference, and change no text."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from decoders import PLAIN, prompt
from eagle_heads import DRAFT_WORDS, WIDTH, Reference, config, state, target
from safetensors.torch import save_file

from anabranch import llm
from anabranch.llm.speculation.eagle_drafts import EagleDrafts

NEW = 24


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return target()


@pytest.fixture(scope="module")
def tensors():
    torch.manual_seed(3)
    return state()


def compiled_with(model, tensors, **more):
    draft = llm.eagle3(tensors, config(), guesses=4)
    return llm.compile(model, max_length=320, draft=draft, **more)


@pytest.fixture(scope="module")
def compiled(model, tensors):
    return compiled_with(model, tensors)


@pytest.mark.parametrize("length", [1, 40, 200])
def test_tokens_are_those_of_plain_decoding(model, compiled, length):
    torch.manual_seed(length)
    tokens = prompt(1, length)
    for choice in ({}, {"do_sample": True, "top_k": 4}, {"repetition_penalty": 1.2}):
        found = []
        for one in (model, compiled):
            torch.manual_seed(4)
            found.append(one.generate(tokens, **PLAIN | choice, max_new_tokens=NEW))
        assert torch.equal(*found)


def test_guesses_are_those_of_a_reference(model, tensors, compiled, monkeypatch):
    """Each round's guesses, behind a prompt of two chunks."""
    reference = Reference(tensors, model.get_input_embeddings().weight.detach())
    rounds, propose = [], EagleDrafts.propose

    def noted(self, known, most):
        found = propose(self, known, most)
        rounds.append((list(known), found))
        return found

    monkeypatch.setattr(EagleDrafts, "propose", noted)
    torch.manual_seed(9)
    answer = compiled.generate(prompt(1, 50), **PLAIN, max_new_tokens=NEW)
    with torch.no_grad():
        states = model(answer, output_hidden_states=True).hidden_states
    features = torch.cat([states[at][0] for at in (2, 3, 3)], -1)
    assert len(rounds) > 3
    for known, guesses in rounds:
        wanted = reference.guesses(known[1:], features[: len(known) - 1], len(guesses))
        assert guesses == wanted


def test_a_head_of_bf16(tensors):
    torch.manual_seed(0)
    model = target().bfloat16()
    compiled = compiled_with(
        model,
        {k: v.bfloat16() if v.is_floating_point() else v for k, v in tensors.items()},
    )
    tokens = prompt(1, 9)
    plain = llm.compile(model, max_length=320)
    expected = plain.generate(tokens, **PLAIN, max_new_tokens=NEW)
    assert torch.equal(compiled.generate(tokens, **PLAIN, max_new_tokens=NEW), expected)


def test_several_rows_are_decoded_without_guesses(model, tensors):
    compiled = compiled_with(model, tensors, max_batch=2)
    tokens = prompt(2, 7)
    expected = model.generate(tokens, **PLAIN, max_new_tokens=6)
    found = compiled.generate(tokens, **PLAIN, max_new_tokens=6)
    assert torch.equal(found, expected)


def test_a_folder(model, tensors, tmp_path):
    """With the names of some checkpoints, and an embedding of its own."""
    named = {
        f"model.{name}".replace("midlayer.", "layers.0."): tensor
        for name, tensor in tensors.items()
    }
    embedding = model.get_input_embeddings().weight.detach()
    named["model.embed_tokens.weight"] = embedding.clone()
    save_file(named, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config()))
    ids = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 2]}}
    for own in ({}, ids):
        (tmp_path / "config.json").write_text(json.dumps(config(**own)))
        draft = llm.eagle3(tmp_path)
        assert draft.layers(model) == (2, 3, 3)
    head, other = draft.head(model), llm.eagle3(tensors, config()).head(model)
    for name, tensor in other.state_dict().items():
        assert torch.equal(head.state_dict()[name], tensor)


def without(tensors, *names):
    return {name: tensor for name, tensor in tensors.items() if name not in names}


@pytest.mark.parametrize(
    ("change", "changes", "text"),
    [
        (lambda t: without(t, "fc.weight", "d2t"), {}, "lacks d2t, fc.weight"),
        (lambda t: t | {"fc_norm.0.weight": t["d2t"]}, {}, "fc_norm.0.weight"),
        (
            lambda t: t | {"fc.weight": torch.zeros(WIDTH, WIDTH)},
            {},
            r"\[32, 32\].*\[32, 96\]",
        ),
        (lambda t: t, {"vocab_size": 98}, "vocabulary of 98 tokens.*has 99"),
        (lambda t: t, {"hidden_size": 64}, "width of 64 and no embed_tokens"),
        (
            lambda t: t | {"d2t": torch.full((DRAFT_WORDS,), 60)},
            {},
            "from 60 to 99, and the vocabulary has 99",
        ),
        (
            lambda t: t,
            {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 7]}},
            r"states \[2, 3, 8\].*has 6 layers",
        ),
    ],
)
def test_heads_of_another_model(model, tensors, change, changes, text):
    draft = llm.eagle3(change(tensors), config(**changes))
    with pytest.raises(ValueError, match=text):
        llm.compile(model, max_length=64, draft=draft)


def test_wrong_arguments(model, tensors, tmp_path):
    with pytest.raises(ValueError, match="guesses must be an int from 1 to 15"):
        llm.eagle3(tensors, config(), guesses=16)
    with pytest.raises(ValueError, match="needs config="):
        llm.eagle3(tensors)
    with pytest.raises(ValueError, match="num_hidden_layers=2"):
        llm.eagle3(tensors, config(num_hidden_layers=2))
    with pytest.raises(FileNotFoundError, match=r"neither \*.safetensors"):
        llm.eagle3(tmp_path)
    with pytest.raises(TypeError, match="argument of generate"):
        llm.compile(model, draft=model)
    small = {"num_hidden_layers": 6, "hidden_size": 32, "num_attention_heads": 4}
    phi = transformers.Phi3Config(
        **small, vocab_size=99, intermediate_size=48, pad_token_id=0
    )
    draft = llm.eagle3(tensors, config())
    with pytest.raises(ValueError, match="steps in a way of its own"):
        llm.compile(transformers.Phi3ForCausalLM(phi).eval(), draft=draft)
