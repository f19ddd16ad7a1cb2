"""The engine of a chat: made once, then found in the cache by a process without
PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from decoders import PLAIN, llama, prompt

pytest.importorskip("transformers")
from word_tokenizer import words

import anabranch
from anabranch.llm import checkpoint
from anabranch.llm.chatting import chat_package

LENGTH = 40
OPEN = """
import json, sys
from pathlib import Path
from anabranch.llm.chatting import chat_package

chat_package.SIZES = (1, 8)
engine = chat_package.open_or_make(Path(sys.argv[1]), chat_package.Precision(), 40, 0)
found = []
engine.answer(json.loads(sys.argv[2]), 6, lambda token: found.append(token) or True)
names = engine.tokenizer.tokens([{"role": "user", "content": "two rivers"}])
assert not {"torch", "transformers"} & set(sys.modules)
print(json.dumps([engine.made, found, names]))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model, its path, the cache, and the engine that was made for them."""
    torch.manual_seed(0)
    model, folder = llama(), tmp_path_factory.mktemp("chat")
    path = folder / "model.gguf"
    path.write_text("a model")
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setenv("ANABRANCH_CACHE_HOME", str(folder / "cache"))
        context.setenv("ANABRANCH_CACHE", "1")
        context.setattr(chat_package, "SIZES", (1, 8))
        context.setattr(checkpoint, "load", lambda *_, **__: (model, words(None)))
        engine = chat_package.open_or_make(path, chat_package.Precision(), LENGTH, 0)
        yield model, path, engine


def answer(engine, tokens, most):
    found = []
    engine.answer(tokens, most, lambda token: found.append(token) or True)
    return found


def expected(model, tokens, most):
    made = model.generate(torch.tensor([tokens]), max_new_tokens=most, **PLAIN)
    return made[0, len(tokens) :].tolist()


def test_answers_are_eager_s(made):
    model, _, engine = made
    assert engine.made == "compiled" and engine.length == LENGTH
    for length, most in ((1, 3), (7, 5), (19, 10), (30, 10), (39, 1)):
        tokens = prompt(1, length)[0].tolist()
        assert answer(engine, tokens, most) == expected(model, tokens, most)


def test_a_turn_reads_what_is_new(made, monkeypatch):
    model, _, engine = made
    tokens = prompt(1, 17)[0].tolist()
    first = answer(engine, tokens, 4)
    calls = []
    step = chat_package.PackagedModel._step

    def counted(self, part, count):
        calls.append(count)
        return step(self, part, count)

    monkeypatch.setattr(chat_package.PackagedModel, "_step", counted)
    turn = [*tokens, *first, 5, 6]
    assert answer(engine, turn, 3) == expected(model, turn, 3)
    # The last token of the first answer was not read yet.
    assert calls == [3, 1, 1]
    # The same prompt again: its last token is read for the logits.
    calls.clear()
    assert answer(engine, turn, 1) == expected(model, turn, 1) and calls == [1]
    # Another beginning.
    calls.clear()
    other = [*tokens[:3], 50, 51]
    assert answer(engine, other, 2) == expected(model, other, 2) and calls == [2, 1]


def test_a_later_start_needs_no_pytorch(made):
    model, path, _ = made
    tokens = prompt(1, 9)[0].tolist()
    command = [sys.executable, "-c", OPEN, str(path), json.dumps(tokens)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    how, found, names = json.loads(done.stdout)
    assert how == "from the cache"
    assert found == expected(model, tokens, 6)
    assert names == words(None)("two rivers")["input_ids"]


def test_a_model_without_a_package_answers_by_generate(tmp_path, monkeypatch):
    from anabranch.llm import exporting

    def refuse(*_, **__):
        raise ValueError("biases of distances")

    model, path = llama(), tmp_path / "model.gguf"
    path.write_text("another model")
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(exporting, "export", refuse)
    monkeypatch.setattr(checkpoint, "load", lambda *_, **__: (model, words(None)))
    engine = chat_package.open_or_make(path, chat_package.Precision(), LENGTH, 0)
    tokens = prompt(1, 5)[0].tolist()
    found = answer(engine, tokens, 3)
    assert found == expected(model, tokens, len(found))
    assert anabranch.last_report()
