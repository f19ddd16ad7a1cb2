"""The interface of a chat's engine, and the engine that calls a generate() of
transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .chat_tokenizer import ChatTokenizer

# Takes each token of an answer; false ends the answer.
Put = Callable[[int], bool]
# The longest conversation in tokens, if the model has positions for more.
LENGTH = 1024


class Precision(NamedTuple):
    """The number formats of a model's computation.

    dtype                  "f32" or "bf16"
    quantize, activations  as of anabranch.llm.compile, for the engine "anabranch" alone
    """

    dtype: str = "f32"
    quantize: str | None = None
    activations: str = "exact"


class Engine(NamedTuple):
    # Answers the tokens of a prompt, greedily, with at most so many tokens.
    answer: Callable[[list[int], int, Put], None]
    tokenizer: ChatTokenizer
    length: int  # the longest conversation in tokens
    made: str  # how the engine became ready


def conversation_length(model: Any) -> int:
    limit = model.config.get_text_config(decoder=True).max_position_embeddings
    return min(LENGTH, limit or LENGTH)


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end an answer of the model."""
    found = model.generation_config.eos_token_id
    if found is None:
        found = tokenizer.eos_token_id
    if found is None:
        return frozenset()
    return frozenset([found] if isinstance(found, int) else found)


def of_generate(
    generate: Callable[..., Any],
    tokenizer: ChatTokenizer,
    length: int,
    made: str = "compiled",
) -> Engine:
    """The engine of a generate() of transformers."""
    return Engine(_Generating(generate).answer, tokenizer, length, made)


class _Generating:
    """Answers by a generate() of transformers."""

    def __init__(self, generate: Callable[..., Any]) -> None:
        self._generate = generate

    def answer(self, prompt: list[int], new_tokens: int, put: Put) -> None:
        import torch

        def ends(tokens: Any, _: Any, **__: Any) -> Any:
            """A stopping criterion, which sees each new token at once."""
            goes_on = put(int(tokens[0, -1]))
            return torch.tensor([not goes_on])

        tokens = torch.tensor([prompt])
        self._generate(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=new_tokens,
            do_sample=False,
            stopping_criteria=[ends],
        )
