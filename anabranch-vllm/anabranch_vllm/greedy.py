"""The tokens of greedy requests, from logits as the product leaves them.

vLLM's sampler copies all logits to float32 before it looks for the largest ones. Where
nothing changes logits and nobody asks for their values, a program finds the same tokens
in the logits of 16 bits: float32 has all of these numbers, in the same order. The sampler
stays vLLM's for all other batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import linear

_NARROW = (torch.bfloat16, torch.float16)
# The state of vLLM's processors that can change the largest logit: empty if no request of
# the batch asks for one.
_STATES = {"LogitBiasLogitsProcessor": "biases", "MinTokensLogitsProcessor": "min_toks"}

Sample = Callable[..., Any]


def join(sampler: Any, output: Callable[..., Any]) -> None:
    """Has a sampler of vLLM call the program. `output` is vLLM's class of what a sampler
    returns."""
    sampler.forward = joined(type(sampler).forward.__get__(sampler), output)


def joined(theirs: Sample, output: Callable[..., Any]) -> Sample:
    """The `forward` of a sampler: for batches that `is_plain`, and for all others."""
    # A vocabulary that is filled up leaves gaps between rows.
    programs: dict[Any, linear.Program] = {}

    def forward(
        logits: Tensor, sampling_metadata: Any, *others: Any, **named: Any
    ) -> Any:
        if logits.dtype not in _NARROW:
            return theirs(logits, sampling_metadata, *others, **named)
        form = logits.dtype, logits.shape[1], logits.stride()
        if form not in programs:
            programs[form] = linear.Program(_largest)
            programs[form](logits)  # vLLM's warm-up comes here, with another batch
        if others or named or not is_plain(sampling_metadata):
            return theirs(logits, sampling_metadata, *others, **named)
        return output(sampled_token_ids=programs[form](logits), logprobs_tensors=None)

    return forward


def is_plain(batch: Any) -> bool:
    """Whether the tokens of a batch are those of its largest logits, and are all that its
    requests ask for."""
    return (
        batch.all_greedy
        and batch.max_num_logprobs is None
        and not batch.logprob_token_ids
        and batch.no_penalties
        and batch.allowed_token_ids_mask is None
        and not batch.bad_words_token_ids
        and not _counts_thoughts(batch.thinking_budget_state_holder)
        and all(map(_is_idle, batch.logitsprocs.non_argmax_invariant))
    )


def _counts_thoughts(budget: Any) -> bool:
    """Whether a request of the batch may think for some tokens only."""
    return budget is not None and budget.has_tracked_requests()


def _is_idle(processor: Any) -> bool:
    """Whether a processor of logits leaves all of them. One that this module does not
    know may change any."""
    kind = type(processor)
    state = _STATES.get(kind.__name__)
    if state is None or not kind.__module__.startswith("vllm."):
        return False
    return not getattr(processor, state)


def _largest(logits: Tensor) -> Tensor:
    return logits.argmax(-1, keepdim=True).to(torch.int32)
