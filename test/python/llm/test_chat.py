"""A chat without a model: the prompts that it sends, its output, the turns it drops."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import types

import pytest

pytest.importorskip("transformers")
from word_tokenizer import words

from anabranch.commands import chat_command
from anabranch.llm import chat, engines
from anabranch.llm.chatting.chat_tokenizer import LoadedTokenizer, SavedTokenizer


class Letters:
    """A tokenizer in which each byte is a token."""

    ends = frozenset([0])

    def tokens(self, messages):
        return list("\n".join(m["content"] for m in messages).encode())

    def text(self, tokens):
        return bytes(filter(None, tokens)).decode(errors="replace")


def parrot(seen, text="ok"):
    """An engine's answer: this text."""

    def answer(prompt, new_tokens, put):
        seen.append(bytes(prompt).decode())
        for token in [*text.encode(), 0][:new_tokens]:
            if not put(token):
                break

    return answer


def talking(seen, length, new_tokens, text="ok"):
    engine = engines.Engine(parrot(seen, text), Letters(), length, "warm")
    return chat.Chat(engine, new_tokens)


def test_answers_and_forgets(capsys):
    seen = []
    talk = talking(seen, length=16, new_tokens=4)
    figures = talk.answer("hello")
    assert "tokens/s" in figures.line("eager") and len(figures.times) == 3
    assert capsys.readouterr().out == "ok\n"
    talk.answer("you")
    assert seen == ["hello", "hello\nok\nyou"]
    talk.answer("there")  # the first turn no longer fits: the chat drops it
    assert seen[-1] == "you\nok\nthere"
    with pytest.raises(ValueError, match="13 tokens and there is room for 12"):
        talk.answer("x" * 13)
    with pytest.raises(ValueError, match="prompt is empty"):
        talk.answer("  ")


@pytest.mark.parametrize("most", [3, 100])
def test_letters_of_several_tokens_are_printed_whole(most, capsys, monkeypatch):
    shown = []
    monkeypatch.setattr(
        chat, "print", lambda text="", **_: shown.append(text), raising=False
    )
    text = "über\nzwölf\n\nñ"
    figures = talking([], 200, most, text).answer("go")
    whole = text.encode()[:most].decode(errors="replace")
    assert figures.text == "".join(shown) == whole
    if most == 100:
        assert shown[:2] == ["ü", "b"] and not any(chat.UNKNOWN in t for t in shown)


def test_no_room_for_a_prompt():
    with pytest.raises(ValueError, match="no room for a prompt"):
        talking([], length=8, new_tokens=8)


def test_interrupt_ends_the_answer(capsys):
    before = signal.getsignal(signal.SIGINT)
    interrupt = chat.Interrupt()
    with interrupt.listening():
        assert not interrupt.pressed
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.pressed
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before

    class Pressing(Letters):
        def text(self, tokens):
            os.kill(os.getpid(), signal.SIGINT)
            self.text = super().text
            return super().text(tokens)

    engine = engines.Engine(parrot([], "never"), Pressing(), 99, "warm")
    assert chat.Chat(engine, 9).answer("go").text == "n"


@pytest.mark.parametrize(("most", "answer"), [(9, "ab\0"), (1, "a")])
def test_an_engine_of_tokens_answers(most, answer):
    """The chat takes llama.cpp's tokens one by one, and asks for none after the last."""
    asked, given = [], []

    def tokens(prompt, **arguments):
        asked.append((prompt, arguments["top_k"]))
        for letter in "ab\0":
            yield ord(letter)
        raise AssertionError

    def put(token):
        given.append(chr(token))
        return token != 0

    engines.TokenByToken(tokens).answer([5, 6], most, put)
    assert asked == [([5, 6], 1)]
    assert "".join(given) == answer


@pytest.mark.parametrize("most", [2, 9])
def test_an_answer_of_openvino_ends_where_the_chat_ends_it(most, monkeypatch):
    """Tokens come alone or together. A stand-in has GenAI's interface."""
    given = []

    class Pipeline:
        def get_generation_config(self):
            return types.SimpleNamespace()

        def generate(self, tokens, config, streamer):
            assert tokens.tolist() == [[5, 6]] and tokens.dtype == "int64"
            assert (config.max_new_tokens, config.do_sample) == (most, False)
            for new in ([1, [2], [3, 0, 8], 9])[:most]:
                if streamer.write(new) == "stop":
                    break
            streamer.end()

    status = types.SimpleNamespace(RUNNING="running", STOP="stop")
    genai = types.SimpleNamespace(StreamingStatus=status, StreamerBase=object)
    monkeypatch.setitem(sys.modules, "openvino_genai", genai)
    monkeypatch.setitem(
        sys.modules, "openvino", types.SimpleNamespace(Tensor=lambda array: array)
    )

    def put(token):
        given.append(token)
        return token != 0

    engines.GenAI(Pipeline()).answer([5, 6], most, put)
    assert given == ([1, 2] if most == 2 else [1, 2, 3, 0])


def test_openvino_names_the_files_that_it_reads(tmp_path):
    with pytest.raises(ValueError, match=r"reads \.gguf files"):
        engines.make("openvino", tmp_path, engines.Precision(), 0)


def test_generate_answers_token_by_token():
    transformers = pytest.importorskip("transformers")
    from decoders import llama, prompt

    model, tokens = llama(), prompt(1, 5)
    expected = model.generate(tokens, max_new_tokens=6, do_sample=False)[0, 5:].tolist()
    engine = engines.of_generate(model.generate, Letters(), 40)
    for most in (6, 2):
        given = []

        def put(token, given=given, most=most):
            given.append(token)
            return len(given) < most

        engine.answer(tokens[0].tolist(), 6, put)
        assert given == expected[:most]
    assert transformers.__version__


TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'skip' %}{% continue %}{% endif %}\n"
    "    {{ bos_token + m['role'] + ' ' + m['content'] | trim }}\n"
    "{% endfor %}{{ {'a': 'ß'} | tojson }}"
    "{% if add_generation_prompt %} assistant{% endif %}"
)


@pytest.mark.parametrize("template", [None, TEMPLATE])
def test_a_saved_tokenizer_does_what_transformers_does(template):
    loaded = LoadedTokenizer(words(template), frozenset([2]))
    saved = SavedTokenizer(loaded.saved())
    messages = [
        {"role": "skip", "content": "nothing"},
        {"role": "user", "content": " two rivers "},
    ]
    tokens = loaded.tokens(messages)
    assert saved.tokens(messages) == tokens and tokens[-1] in (4, 6)
    assert saved.text(tokens) == loaded.text(tokens)
    assert saved.ends == {2}


@pytest.mark.parametrize(
    "template",
    [
        "{% generation %}{{ messages[0]['content'] }}{% endgeneration %}",
        "{{ raise_exception('no') }}",
    ],
)
def test_a_tokenizer_that_needs_transformers_is_not_saved(template):
    assert LoadedTokenizer(words(template), frozenset()).saved() is None


def test_engines_that_are_missing_are_named(monkeypatch, capsys):
    given = argparse.Namespace(
        model="SmolLM2",
        prompt="hello",
        dtype="f32",
        quantize="int8",
        activations="int8",
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
        lambda name: find(name) if name == "torch" else None,
    )
    assert chat_command._compare(given) == 0
    shown = capsys.readouterr()
    assert shown.out == "one\n"
    assert "[llama.cpp: missing, `pip install llama-cpp-python`]" in shown.err
    assert "[openvino: missing, `pip install openvino-genai`]" in shown.err
    assert "[the same text: anabranch, eager; another one: inductor]" in shown.err
    for flag in ("--quantize", "--activations"):
        assert [flag in command for command in commands] == [True, False, False]
