"""The settings of sampling that a graph computes, read from transformers' processors."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from transformers import LogitsProcessorList
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from .short_processors import TopP


@dataclasses.dataclass(frozen=True)
class Warpers:
    """The steps that change scores before a draw, in this order. None: no such step."""

    penalty: float | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None


# The field of each class. transformers makes these processors in this order.
FIELDS: dict[type, str] = {
    RepetitionPenaltyLogitsProcessor: "penalty",
    TemperatureLogitsWarper: "temperature",
    TopKLogitsWarper: "top_k",
    TopPLogitsWarper: "top_p",
    TopP: "top_p",
    MinPLogitsWarper: "min_p",
}
ORDER = [field.name for field in dataclasses.fields(Warpers)]


def split(processors: LogitsProcessorList) -> tuple[LogitsProcessorList, Warpers]:
    """The processors that a graph does not know, and the ones after them as settings."""
    values: dict[str, Any] = {}
    begin, limit = len(processors), len(ORDER)
    for at in reversed(range(len(processors))):
        name = FIELDS.get(type(processors[at]))
        if name is None or ORDER.index(name) >= limit or not _is_plain(processors[at]):
            break
        values[name] = getattr(processors[at], name)
        begin, limit = at, ORDER.index(name)
    return LogitsProcessorList(processors[:begin]), Warpers(**values)


def _is_plain(processor: Any) -> bool:
    """Whether it keeps one token at least, excludes the others, and counts the whole
    prompt."""
    return (
        getattr(processor, "filter_value", -math.inf) == -math.inf
        and getattr(processor, "min_tokens_to_keep", 1) == 1
        and getattr(processor, "prompt_ignore_length", None) is None
        and getattr(processor, "logits_indices", None) is None
    )
