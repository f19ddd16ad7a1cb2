"""A chat without a model: the prompts that it sends, its output, the turns it drops."""

from __future__ import annotations

import argparse
import os
import signal

import pytest
import torch

from anabranch import chat_command

pytest.importorskip("transformers")
chat = pytest.importorskip("anabranch.llm.chat")
engines = pytest.importorskip("anabranch.llm.engines")


class Letters:
    """A tokenizer in which each letter is a token."""

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
    talk.answer("there")  # the first turn no longer fits: the chat drops it
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


class Never:
    def __call__(self, *_):
        return torch.tensor([False])


@pytest.mark.parametrize(("most", "answer"), [(9, "ab"), (1, "a")])
def test_an_engine_of_tokens_generates(most, answer, capsys):
    """The chat takes llama.cpp's tokens one by one, and asks for none after the last."""
    asked = []

    def tokens(prompt, **arguments):
        asked.append((prompt, arguments["top_k"]))
        for letter in "ab\0never":
            yield ord(letter)

    generate = engines._Greedy(tokens, end=0)
    figures = chat.Figures(Letters())
    prompt = torch.tensor([[5, 6]])
    generate(
        input_ids=prompt,
        attention_mask=torch.ones_like(prompt),
        streamer=figures,
        stopping_criteria=Never(),
        max_new_tokens=most,
        do_sample=False,
    )
    assert asked == [([5, 6], 1)]
    assert figures.text.strip("\0") == answer
    assert len(figures.times) == len(answer) + (most > 2)


def test_engines_that_are_missing_are_named(monkeypatch, capsys):
    given = argparse.Namespace(
        model="SmolLM2",
        prompt="hello",
        dtype="f32",
        quantize="int8",
        max_new_tokens=3,
        threads=0,
    )
    said = {"anabranch": "one\n", "eager": "one\n", "inductor": "two\n"}
    commands = []

    def run(command, **_):
        commands.append(command)
        name = command[command.index("--engine") + 1]
        return argparse.Namespace(returncode=0, stdout=said[name])

    monkeypatch.setattr(chat_command.subprocess, "run", run)
    find = chat_command.importlib.util.find_spec
    monkeypatch.setattr(
        chat_command.importlib.util,
        "find_spec",
        lambda name: None if name == "llama_cpp" else find(name),
    )
    assert chat_command._compare(given) == 0
    shown = capsys.readouterr()
    assert shown.out == "one\n"
    assert "[llama.cpp: missing, `pip install llama-cpp-python`]" in shown.err
    assert "[the same text: anabranch, eager; another one: inductor]" in shown.err
    assert ["--quantize" in command for command in commands] == [True, False, False]
