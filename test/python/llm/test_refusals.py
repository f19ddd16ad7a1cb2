"""anabranch.llm and `anabranch chat` refuse bad input with one sentence each."""

from __future__ import annotations

import pytest
import torch
from small_models import SMALL
from torch._dynamo.exc import InternalTorchDynamoError

from anabranch import cli

transformers = pytest.importorskip("transformers")
llm = pytest.importorskip("anabranch.llm")
memory = pytest.importorskip("anabranch.memory")
programs = pytest.importorskip("anabranch.llm.programs")


def llama():
    config = transformers.LlamaConfig(**SMALL, max_position_embeddings=64)
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"quantize": "int8", "freeze": False}, ValueError, "needs frozen weights"),
        ({"quantize": "int3"}, ValueError, "None or one of 'int8', 'int4'"),
        ({"max_length": 65}, ValueError, "positions for 64 tokens"),
        ({"max_length": 0}, ValueError, "max_length must be a positive int"),
        ({"max_batch": True}, ValueError, "max_batch must be a positive int"),
        ({"colour": 1}, ValueError, "colour"),
    ],
)
def test_arguments(arguments, kind, text):
    with pytest.raises(kind, match=text):
        llm.compile(llama(), **arguments)


def test_models():
    with pytest.raises(ValueError, match="no model of transformers"):
        llm.compile(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="training mode"):
        llm.compile(llama().train())
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    t5 = transformers.T5ForConditionalGeneration(
        transformers.T5Config(**sizes, vocab_size=9)
    )
    with pytest.raises(ValueError, match="encoder with a decoder"):
        llm.compile(t5.eval())


def test_a_model_that_reads_the_empty_part_of_a_static_cache():
    """GPT-Neo counts the positions of queries back from the cache's end."""
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_layers": 2, "num_heads": 2}
    config = transformers.GPTNeoConfig(
        **sizes,
        max_position_embeddings=64,
        attention_types=[[["global", "local"], 1]],
        window_size=8,
        initializer_range=0.5,
    )
    model = transformers.GPTNeoForCausalLM(config).eval()
    with pytest.raises(ValueError, match="other logits with a static cache"):
        llm.compile(model)


def test_a_model_that_dynamo_cannot_trace(monkeypatch):
    """As MPT, which slices a tensor by the number of tokens in the cache."""

    def trace(*_):
        raise InternalTorchDynamoError("unbacked symbols\nmore lines")

    monkeypatch.setattr(programs.Programs, "_program", lambda *_: trace)
    compiled = llm.compile(llama(), max_length=32)
    with pytest.raises(RuntimeError, match=r"static cache \(unbacked symbols\): call"):
        compiled.generate(torch.ones(1, 4, dtype=torch.long), max_new_tokens=4)


def test_too_little_memory(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 1000)
    with pytest.raises(MemoryError, match="smaller max_length"):
        llm.compile(llama())


def test_calls():
    compiled = llm.compile(llama(), max_length=16)
    one = torch.ones(1, 4, dtype=torch.long)
    with pytest.raises(ValueError, match="prompt is empty"):
        compiled.generate(torch.ones(1, 0, dtype=torch.long))
    with pytest.raises(ValueError, match="attention mask is all 0"):
        compiled.generate(one, attention_mask=torch.zeros_like(one))
    with pytest.raises(ValueError, match="may reach 17 tokens.*holds 16"):
        compiled.generate(one, max_new_tokens=13)
    with pytest.raises(ValueError, match="larger max_length"):
        compiled.generate(one, max_length=17)
    with pytest.raises(ValueError, match="2 rows.*compiled for 1"):
        compiled.generate(one, num_beams=2, max_new_tokens=2)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nowhere.gguf"], "neither a model's folder nor a .gguf file"),
        (["."], "no config.json"),
        (["--max-new-tokens", "0"], "must be positive"),
        (["--threads", "-1"], "must not be negative"),
    ],
)
def test_chat_says_what_is_wrong(arguments, text, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["chat", *arguments]) == 1
    assert text in capsys.readouterr().err
