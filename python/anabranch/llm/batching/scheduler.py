"""Continuous batching: requests join and leave between two steps."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

import torch

from ..chunk_sizes import LARGEST_CHUNK, chunks
from .batch_steps import BatchSteps
from .blocks import BLOCK, Blocks, blocks_for
from .paged_cache import Pool
from .sampler import Sampler


class Request:
    """A prompt and its answer so far.

    tokens  token ids of the prompt and the answer
    done    whether the answer is complete or was cancelled
    """

    def __init__(self, prompt: list[int], sampler: Sampler, streamer: Any) -> None:
        self.prompt = prompt
        self.tokens = list(prompt)
        self.done = False
        self._sampler, self._streamer = sampler, streamer
        # While the request runs: its blocks and their places in the pool; the chunks of
        # its tokens that are left to read; and how many of its tokens the pool has.
        self._blocks: list[int] = []
        self._table: list[int] = []
        self._chunks: collections.deque[tuple[int, int, int]] = collections.deque()
        self._cached = 0
        if streamer is not None:
            streamer.put(torch.tensor([prompt]))

    @property
    def answer(self) -> list[int]:
        return self.tokens[len(self.prompt) :]

    def blocks_at_most(self) -> int:
        # No step reads the last token.
        return blocks_for(self._sampler.max_length - 1)

    def _has_room(self) -> bool:
        """Whether the next token that a step reads has a slot."""
        return self._cached < len(self._blocks) * BLOCK

    def _append(self, logits: torch.Tensor, likeliest: int) -> None:
        token, ends = self._sampler.next(self.tokens, logits, likeliest)
        self.tokens.append(token)
        if self._streamer is not None:
            self._streamer.put(torch.tensor([token]))
        if ends:
            self._finish()

    def _finish(self) -> None:
        self.done = True
        if self._streamer is not None:
            self._streamer.end()


class Batch:
    """Requests that are computed together, over one pool of keys and values.

    Each `step` computes one token of each request whose prompt was read, and one chunk
    of the prompt of another request. Requests begin in the order in which they came,
    when the pool has blocks for their prompt, and take more as their answers grow. If
    none is left, the request that began last gives its own back. It waits first in the
    line, and reads its tokens again. A request gets the tokens that it would get alone.
    Only one thread may use a batch at a time.
    """

    def __init__(
        self,
        model: Any,
        steps: BatchSteps,
        pool: Pool,
        max_rows: int,
        max_length: int,
    ) -> None:
        self._model, self._steps, self._pool = model, steps, pool
        self._blocks = Blocks(pool.blocks)
        self._max_rows, self._max_length = max_rows, max_length
        self.waiting: collections.deque[Request] = collections.deque()
        self.running: list[Request] = []

    def add(
        self,
        prompt: Sequence[int] | torch.Tensor,
        *,
        seed: int | None = None,
        streamer: Any = None,
        **settings: Any,
    ) -> Request:
        """Adds a request, which begins at a later step, and returns it.

        prompt    token ids: a sequence, or int64 [tokens] or [1, tokens]
        seed      of the draws of this request; None: PyTorch's own generator
        streamer  as of generate(): gets the prompt, then each token
        settings  arguments of generate(), for one greedy or sampled answer

        ValueError: an empty prompt, an unknown setting, or more tokens than a row or
        the pool has room for.
        """
        tokens = _tokens(prompt)
        sampler = Sampler(self._model, tokens, seed, settings)
        if sampler.max_length > self._max_length:
            raise ValueError(
                f"the request may reach {sampler.max_length} tokens and a row holds"
                f" {self._max_length}: compile the model with a larger max_length, or"
                " ask for fewer"
            )
        if sampler.max_length <= len(tokens):
            raise ValueError(
                f"the prompt has {len(tokens)} tokens and the request ends at"
                f" {sampler.max_length}: ask for more"
            )
        request = Request(tokens, sampler, streamer)
        if request.blocks_at_most() > self._blocks.count:
            raise ValueError(
                f"the request may reach {sampler.max_length} tokens, more than the"
                " whole pool has: make the batch with a larger cache_tokens"
            )
        self.waiting.append(request)
        return request

    def cancel(self, request: Request) -> None:
        """Ends a request at its last token. Its blocks are free at once."""
        if request in self.waiting:
            self.waiting.remove(request)
        if not request.done:
            request._finish()
        self._leave()

    def step(self) -> list[Request]:
        """Computes one step and returns the requests that it completed. Without
        requests it does nothing."""
        self._admit()
        before = list(self.running)
        reading = next((r for r in self.running if r._chunks), None)
        if reading is not None:
            self._read_chunk(reading)
        self._leave()
        self._make_room()
        self._decode([r for r in self.running if not r._chunks and not r.done])
        self._leave()
        return [request for request in before if request.done]

    def run(self) -> None:
        """Steps until all requests are complete."""
        while self.waiting or self.running:
            self.step()

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self._max_rows:
            request = self.waiting[0]
            count = blocks_for(len(request.tokens))
            # A running request may need a block soon.
            if count + len(self.running) > self._blocks.free:
                return
            self._give(request, count)
            request._chunks.extend(chunks(len(request.tokens), None))
            self.running.append(self.waiting.popleft())

    def _give(self, request: Request, count: int) -> None:
        blocks = self._blocks.take(count)
        assert blocks is not None
        request._blocks += blocks
        request._table = self._pool.places(request._blocks)

    def _make_room(self) -> None:
        """Gives a block to each request that needs one for its next token. The whole
        pool has room for the longest answer of any request, so the one that began first
        goes on."""
        for request in list(self.running):
            # One that was interrupted has no blocks.
            while request._blocks and not request._has_room():
                if self._blocks.free:
                    self._give(request, 1)
                else:
                    last = self.running.pop()
                    self._take_back(last)
                    self.waiting.appendleft(last)

    def _take_back(self, request: Request) -> None:
        self._blocks.give_back(request._blocks)
        request._blocks = []
        request._chunks.clear()
        request._cached = 0

    def _read_chunk(self, request: Request) -> None:
        begin, end, size = request._chunks.popleft()
        logits, likeliest = self._steps.next_logits(
            self._pool, [request.tokens[begin:end]], [begin], [request._table], size
        )
        request._cached = end
        if not request._chunks:
            request._append(logits[0], likeliest[0])

    def _decode(self, requests: list[Request]) -> None:
        if not requests:
            return
        logits, likeliest = self._steps.next_logits(
            self._pool,
            [request.tokens[-1:] for request in requests],
            [request._cached for request in requests],
            [request._table for request in requests],
            1,
        )
        for request, *own in zip(requests, logits, likeliest):
            request._cached += 1
            request._append(*own)

    def _leave(self) -> None:
        for request in self.running:
            if request.done:
                self._take_back(request)
        self.running = [request for request in self.running if not request.done]


def _tokens(prompt: Sequence[int] | torch.Tensor) -> list[int]:
    given = torch.as_tensor(prompt)
    if given.dim() == 2 and given.shape[0] == 1:
        given = given[0]
    if given.dim() != 1 or given.numel() == 0 or given.is_floating_point():
        raise ValueError(
            "a prompt is a sequence of at least one token id, got shape"
            f" {list(given.shape)} of {given.dtype}"
        )
    return given.tolist()


def spare_slots(max_rows: int) -> int:
    """How many slots one step of a batch may write besides its tokens, at most."""
    return max(max_rows, LARGEST_CHUNK)
