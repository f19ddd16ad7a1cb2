"""A conversation in the terminal: prints tokens as they come, and their speed."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from transformers import StoppingCriteria, StoppingCriteriaList, TextStreamer

from . import memory
from .engines import Generate


class Figures(TextStreamer):
    """Prints words when they are complete, and measures the time of each token."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer, skip_prompt=True, skip_special_tokens=True)
        self.times: list[float] = []
        self.text = ""
        self.begin = time.perf_counter()

    def put(self, value: torch.Tensor) -> None:
        # generate() first puts the prompt.
        if not self.next_tokens_are_prompt:
            self.times.append(time.perf_counter())
        super().put(value)

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        self.text += text
        print(text, end="\n" if stream_end else "", flush=True)

    def line(self, title: str) -> str:
        if not self.times:
            return f"[{title}: no token]"
        first, count = self.times[0] - self.begin, len(self.times) - 1
        spent = self.times[-1] - self.times[0]
        rate = f"{count / spent:.1f} tokens/s" if count else "one token"
        return (
            f"[{title}: {rate}, first token after {first:.2f} s,"
            f" {memory.peak() // memory.MIB} MiB at most]"
        )


class Interrupt(StoppingCriteria):
    """Ends an answer at its next token after Ctrl-C."""

    def __init__(self) -> None:
        self.pressed = False

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        return torch.full((input_ids.shape[0],), self.pressed, dtype=torch.bool)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        def handle(*_: Any) -> None:
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

    def __init__(
        self, generate: Generate, tokenizer: Any, length: int, new_tokens: int
    ) -> None:
        if new_tokens >= length:
            raise ValueError(
                f"{new_tokens} new tokens leave no room for a prompt in a cache of"
                f" {length}"
            )
        self._generate, self._tokenizer = generate, tokenizer
        self._length, self._new_tokens = length, new_tokens
        self._messages: list[dict[str, str]] = []

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
        with interrupt.listening():
            self._generate(
                **tokens,
                max_new_tokens=self._new_tokens,
                do_sample=False,
                streamer=figures,
                stopping_criteria=StoppingCriteriaList([interrupt]),
            )
        self._messages.append({"role": "assistant", "content": figures.text})
        return figures

    def _recent_tokens(self) -> dict[str, torch.Tensor]:
        """The tokens of the conversation, without the oldest turns if the cache has no
        room."""
        room = self._length - self._new_tokens
        while True:
            tokens = self._tokens()
            count = tokens["input_ids"].shape[1]
            if count <= room:
                return tokens
            if len(self._messages) <= 1:
                raise ValueError(
                    f"the prompt has {count} tokens and there is room for {room}"
                    " beside the answer: ask for fewer new tokens, or shorten it"
                )
            del self._messages[:2]

    def _tokens(self) -> dict[str, torch.Tensor]:
        if self._tokenizer.chat_template is None:
            text = "\n".join(message["content"] for message in self._messages)
            found = self._tokenizer(text, return_tensors="pt")
        else:
            found = self._tokenizer.apply_chat_template(
                self._messages,
                add_generation_prompt=True,
                return_tensors="pt",
                return_dict=True,
            )
        return {name: found[name] for name in ("input_ids", "attention_mask")}


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
