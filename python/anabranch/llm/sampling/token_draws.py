"""Draws the tokens of a call of generate(), or of a request of a batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from transformers import LogitsProcessorList

from ..programs import Programs
from . import draws
from .calling_thread import is_light, one_thread
from .sampling_step import UNKNOWN, Kind, SamplingStep, inputs_of
from .warpers import Warpers, split

Tokens = Callable[[], torch.Tensor]


class SamplingGraphs:
    """The compiled graphs of a model: one for each kind, number of rows, and dtype."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._steps: dict[Kind, SamplingStep] = {}

    def draw(
        self, kind: Kind, logits: torch.Tensor, *inputs: torch.Tensor
    ) -> torch.Tensor:
        """SamplingStep.compute of this kind, with its arguments and result."""
        step = self._steps.setdefault(kind, SamplingStep(kind))
        key = (kind, *logits.shape, logits.dtype)
        return self._programs.call(key, step.compute, logits, *inputs)


class Rows:
    """The inputs of a call's graph besides logits: random numbers, the words that were
    seen, and the settings."""

    def __init__(self, prompt: torch.Tensor, words: int, warpers: Warpers) -> None:
        rows = len(prompt)
        self.kind = Kind.of(warpers, words)
        self.numbers = torch.empty(rows, words, dtype=torch.float64)
        self.inputs = inputs_of(warpers, words)
        # The last column is for tokens that have no logit.
        self._seen = torch.zeros(rows, words + 1, dtype=torch.bool)
        self.seen = self._seen[:, :words]
        self.mark(prompt)

    def mark(self, tokens: torch.Tensor) -> None:
        """These tokens [rows, any number] were seen."""
        self._seen.scatter_(1, tokens.clamp(max=self.seen.shape[1]), True)


class TokenDraws:
    """Draws a word for each row of logits, again and again, as transformers' processors
    and torch.multinomial do, by the same random numbers. A graph computes the last
    processors if it knows them; those before them run as they are."""

    def __init__(
        self,
        graphs: SamplingGraphs,
        processors: LogitsProcessorList,
        prompt: torch.Tensor,
        generator: torch.Generator | None = None,
    ) -> None:
        """
        prompt     token ids, int64 [rows, tokens]
        generator  of the random numbers; None: PyTorch's own
        """
        self._graphs, self._prompt, self._generator = graphs, prompt, generator
        self._before, self._warpers = split(processors)
        # The processors of the graph, for tokens that the graph leaves to PyTorch.
        self._in_graph = LogitsProcessorList(processors[len(self._before) :])
        self._is_light = all(map(is_light, processors))
        self._rows: Rows | None = None

    def next(self, logits: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """The next word of each row, int64 [rows]. RuntimeError: that of
        torch.multinomial, if a logit is infinite or NaN.

        logits  of any float dtype, [rows, words]
        tokens  gives the prompts and the answers so far, int64 [rows, tokens]
        """
        # Processors of users may need all threads.
        with one_thread(logits) if self._is_light else contextlib.nullcontext():
            scores = logits.contiguous()
            if self._before:
                scores = self._before(tokens(), logits.to(torch.float32, copy=True))
            if draws.are_known():
                return self._by_graph(scores, tokens)
            chances = self._chances(scores, tokens)
            return torch.multinomial(chances, 1, generator=self._generator).squeeze(1)

    def _by_graph(self, scores: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        if self._rows is None:
            self._rows = Rows(self._prompt, scores.shape[1], self._warpers)
        rows = self._rows
        draws.uniform(rows.numbers, self._generator)
        words = self._graphs.draw(
            rows.kind, scores, rows.numbers, rows.seen, *rows.inputs
        )
        if UNKNOWN in words.tolist():
            words = draws.checked(self._chances(scores, tokens), rows.numbers)
        rows.mark(words.unsqueeze(1))
        return words

    def _chances(self, scores: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """The chances of the words, from scores that `_before` has processed."""
        scores = scores.float()
        if self._in_graph:
            scores = self._in_graph(tokens(), scores)
        return scores.softmax(-1)
