"""A conversation in the terminal: prints tokens as they come, and their speed."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator

from ..extension import peak_memory
from .chatting.chat_engine import Engine
from .chatting.chat_tokenizer import ChatTokenizer, Message

# The decoder's sign for bytes that are no whole letter yet.
UNKNOWN = "\N{REPLACEMENT CHARACTER}"


class Figures:
    """Prints an answer as its tokens come, and measures the time of each token."""

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self._tokenizer = tokenizer
        self.times: list[float] = []
        self.text = ""
        self.begin = time.perf_counter()
        # The tokens of the current line, and how many of its letters are printed.
        self._line: list[int] = []
        self._shown = 0

    def put(self, token: int) -> None:
        self.times.append(time.perf_counter())
        self._line.append(token)
        line = self._tokenizer.text(self._line)
        if line.endswith(UNKNOWN):
            return
        self._print(line)
        if line.endswith("\n"):
            self._line, self._shown = [], 0

    def end(self) -> None:
        """Prints what is left, and ends the line."""
        self._print(self._tokenizer.text(self._line))
        print(flush=True)

    def _print(self, line: str) -> None:
        new, self._shown = line[self._shown :], len(line)
        self.text += new
        print(new, end="", flush=True)

    def line(self, title: str) -> str:
        if not self.times:
            return f"[{title}: no token]"
        first, count = self.times[0] - self.begin, len(self.times) - 1
        spent = self.times[-1] - self.times[0]
        rate = f"{count / spent:.1f} tokens/s" if count else "one token"
        return (
            f"[{title}: {rate}, first token after {first:.2f} s,"
            f" {peak_memory() // 2**20} MiB at most]"
        )


class Interrupt:
    """Notes a Ctrl-C, which ends an answer at its next token."""

    def __init__(self) -> None:
        self.pressed = False

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        def handle(*_: object) -> None:
            if self.pressed:  # A second Ctrl-C: the answer did not end.
                raise KeyboardInterrupt
            self.pressed = True

        before = signal.signal(signal.SIGINT, handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


class Chat:
    """One conversation. It forgets the oldest turns when the cache is full."""

    def __init__(self, engine: Engine, new_tokens: int) -> None:
        if new_tokens >= engine.length:
            raise ValueError(
                f"{new_tokens} new tokens leave no room for a prompt in a cache of"
                f" {engine.length}"
            )
        self._engine, self._tokenizer = engine, engine.tokenizer
        self._length, self._new_tokens = engine.length, new_tokens
        self._messages: list[Message] = []

    def answer(self, prompt: str) -> Figures:
        """Prints the answer. Ctrl-C ends it. ValueError: the prompt is empty, or longer
        than the cache."""
        if not prompt.strip():
            raise ValueError("the prompt is empty")
        self._messages.append({"role": "user", "content": prompt})
        try:
            tokens = self._recent_tokens()
        except ValueError:
            self._messages.pop()
            raise
        figures, interrupt = Figures(self._tokenizer), Interrupt()

        def put(token: int) -> bool:
            figures.put(token)
            return not interrupt.pressed and token not in self._tokenizer.ends

        with interrupt.listening():
            self._engine.answer(tokens, self._new_tokens, put)
        figures.end()
        self._messages.append({"role": "assistant", "content": figures.text})
        return figures

    def _recent_tokens(self) -> list[int]:
        """The tokens of the conversation, without the oldest turns if the cache has no
        room."""
        room = self._length - self._new_tokens
        while True:
            tokens = self._tokenizer.tokens(self._messages)
            if len(tokens) <= room:
                return tokens
            if len(self._messages) <= 1:
                raise ValueError(
                    f"the prompt has {len(tokens)} tokens and there is room for {room}"
                    " beside the answer: ask for fewer new tokens, or shorten it"
                )
            del self._messages[:2]


def converse(chat: Chat, title: str) -> None:
    """Asks for prompts until the input ends."""
    while True:
        try:
            prompt = input("> ")
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print("\n(Ctrl-D ends the conversation)")
            continue
        if not prompt.strip():
            continue
        try:
            print(chat.answer(prompt).line(title), file=sys.stderr)
        except ValueError as error:
            print(f"anabranch: {error}", file=sys.stderr)
