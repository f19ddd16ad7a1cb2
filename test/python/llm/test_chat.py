"""A chat without a model: what it sends, prints and forgets."""

from __future__ import annotations

import os
import signal

import pytest
import torch

pytest.importorskip("transformers")
chat = pytest.importorskip("anabranch.llm.chat")


class Letters:
    """A tokenizer with a token for each letter."""

    chat_template = None

    def __call__(self, text, return_tensors):
        tokens = torch.tensor([[ord(letter) for letter in text]])
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}

    def decode(self, tokens, **_):
        return "".join(chr(token) for token in tokens)


def parrot(seen):
    """A generate() that answers "ok"."""

    def generate(input_ids, streamer, **arguments):
        seen.append("".join(chr(token) for token in input_ids[0]))
        streamer.put(input_ids)
        for letter in "ok":
            streamer.put(torch.tensor([ord(letter)]))
        streamer.end()

    return generate


def test_answers_and_forgets(capsys):
    seen = []
    talk = chat.Chat(parrot(seen), Letters(), length=16, new_tokens=4)
    assert "tokens/s" in talk.answer("hello").line("eager")
    assert capsys.readouterr().out == "ok\n"
    talk.answer("you")
    assert seen == ["hello", "hello\nok\nyou"]
    talk.answer("there")  # the first turn no longer fits
    assert seen[-1] == "you\nok\nthere"
    with pytest.raises(ValueError, match="13 tokens and there is room for 12"):
        talk.answer("x" * 13)
    with pytest.raises(ValueError, match="prompt is empty"):
        talk.answer("  ")


def test_no_room_for_a_prompt():
    with pytest.raises(ValueError, match="no room for a prompt"):
        chat.Chat(parrot([]), Letters(), length=8, new_tokens=8)


def test_interrupt_ends_the_answer():
    interrupt, tokens = chat.Interrupt(), torch.zeros(1, 1)
    before = signal.getsignal(signal.SIGINT)
    with interrupt.listening():
        assert not interrupt(tokens, None).any()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt(tokens, None).all()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
