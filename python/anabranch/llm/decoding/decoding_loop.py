"""The decoding loop of plain calls of generate(): greedy or sampled, one answer a row.

Between two steps transformers' loop makes masks, positions and outputs anew, which
takes longer than a small model's step. This loop has the same results. Any other call
runs in transformers' loop."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

import torch
from transformers import LogitsProcessorList
from transformers.generation.stopping_criteria import StoppingCriteriaList

from ..key_values import KeyValueCache
from ..sampling.calling_thread import is_light, one_thread
from ..sampling.endings import Endings
from ..sampling.short_processors import ShortProcessors
from ..sampling.token_draws import SamplingGraphs, TokenDraws
from ..speculation.speculation import Speculation
from ..speculation.speculative_loop import speculate
from .look_ahead import LookAhead, has_usual_steps, made_masks
from .step_masks import Masks, each

# Arguments of the model's forward that the loop knows.
KNOWN = {
    "attention_mask",
    "position_ids",
    "past_key_values",
    "use_cache",
    "logits_to_keep",
}


class NextLogits(Protocol):
    """Steps of one token."""

    def length(self, tokens: int) -> int:
        """How many tokens of the cache a step reads if it needs `tokens`."""

    def next_logits(
        self, tokens: torch.Tensor, masks: Masks, positions: Any, cache: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The logits [rows, 1, words] after tokens [rows, 1], and the likeliest word
        of each row [rows]."""


def with_short_loop(kind: Any) -> Any:
    """A class of models like `kind`, whose plain calls run in the loop of this file. An
    instance needs the attributes `short_steps`, `sampling_graphs` and `speculation`."""
    usual = has_usual_steps(kind)
    bases = (ShortLoop, ShortProcessors) if usual else (ShortProcessors,)
    names = ("__module__", "__qualname__", "__doc__")
    own = {name: getattr(kind, name) for name in names}
    return type(kind.__name__, (*bases, kind), own)


class ShortLoop:
    """Overrides transformers' loop for greedy decoding and sampling."""

    short_steps: NextLogits
    sampling_graphs: SamplingGraphs
    speculation: Speculation

    def _sample(
        self,
        input_ids: torch.Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        synced_gpus: bool = False,
        streamer: Any = None,
        **model_kwargs: Any,
    ) -> Any:
        whole: Any = super()
        asked = (input_ids, logits_processor, stopping_criteria, generation_config)
        if synced_gpus or not _is_short(
            self, input_ids, generation_config, model_kwargs
        ):
            return whole._sample(
                *asked, synced_gpus=synced_gpus, streamer=streamer, **model_kwargs
            )
        answer = Answer(*asked, streamer, self.sampling_graphs)
        if self.speculation.has_head and _is_dense(input_ids, model_kwargs):
            return self._guided_by_head(answer, input_ids, model_kwargs)
        logits = whole._prefill(input_ids, generation_config, model_kwargs).logits
        cache, steps = model_kwargs["past_key_values"], self.short_steps
        seen, positions = (
            model_kwargs.get(name) for name in ("attention_mask", "position_ids")
        )
        begin = past = input_ids.shape[1]
        ahead: LookAhead | None = None
        likeliest = None
        while not answer.grow(logits, likeliest):
            if ahead is None or not ahead.covers(past):
                new = past - begin + 1
                ahead = LookAhead(
                    self,
                    cache,
                    input_ids.shape[0],
                    None if seen is None else _grown(seen, new),
                    None if positions is None else positions[:, -1:] + new,
                )
            logits, likeliest = steps.next_logits(
                answer.last,
                ahead.masks(past, steps.length(past + 1)),
                ahead.positions(past),
                cache,
            )
            past += 1
        return answer.end()

    def _guided_by_head(
        self, answer: Answer, input_ids: torch.Tensor, call: dict[str, Any]
    ) -> torch.Tensor:
        """The same answer, of which the model's head guesses the tokens."""
        known = input_ids[0].tolist()
        drafts, checks = self.speculation.of_head(call["past_key_values"].memory)
        first = checks.read(known, drafts)
        if not answer.grow(first.logits, first.likeliest[:, -1]):
            speculate(answer, drafts, checks, [*known, int(answer.last)])
        return answer.end()

    def _assisted_decoding(
        self,
        input_ids: torch.Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        synced_gpus: bool = False,
        streamer: Any = None,
        inputs_tensor: Any = None,
        assistant_model: Any = None,
        assistant_tokenizer: Any = None,
        tokenizer: Any = None,
        **model_kwargs: Any,
    ) -> Any:
        whole: Any = super()
        asked = (input_ids, logits_processor, stopping_criteria, generation_config)
        drafts = None
        if (
            not synced_gpus
            and assistant_tokenizer is None
            and _checks_alone(generation_config)
            and _is_short(self, input_ids, generation_config, model_kwargs)
            and _is_dense(input_ids, model_kwargs)
        ):
            drafts = self.speculation.drafts(generation_config, assistant_model)
        if drafts is None:
            return whole._assisted_decoding(
                *asked,
                synced_gpus=synced_gpus,
                streamer=streamer,
                inputs_tensor=inputs_tensor,
                assistant_model=assistant_model,
                assistant_tokenizer=assistant_tokenizer,
                tokenizer=tokenizer,
                **model_kwargs,
            )
        answer = Answer(*asked, streamer, self.sampling_graphs)
        with contextlib.closing(drafts):
            logits = whole._prefill(input_ids, generation_config, model_kwargs).logits
            if not answer.grow(logits, None):
                known = [*input_ids[0].tolist(), int(answer.last)]
                checks = self.speculation.checks(model_kwargs["past_key_values"].memory)
                speculate(answer, drafts, checks, known)
        return answer.end()


def _is_short(
    model: Any, tokens: torch.Tensor, config: Any, call: dict[str, Any]
) -> bool:
    """Whether a call of generate() asks for tokens alone, and has steps that this file
    knows."""
    return (
        not config.return_dict_in_generate
        and not config.is_assistant
        and config.compile_config is None
        and _is_plain(model, tokens, call)
    )


def _is_dense(tokens: torch.Tensor, call: dict[str, Any]) -> bool:
    """Whether a call has one row, without padding."""
    mask, positions = call.get("attention_mask"), call.get("position_ids")
    return (
        len(tokens) == 1
        and (mask is None or bool(mask.all()))
        and (
            positions is None
            or torch.equal(positions[0], torch.arange(tokens.shape[1]))
        )
    )


def _checks_alone(config: Any) -> bool:
    """Whether the model's logits alone decide about guesses, which come from a prompt or
    an assistant."""
    return (
        config.assistant_ensemble_weight is None
        and config.assistant_early_exit is None
        and not config.use_mtp
        and config.speculation_type is None
    )


def _is_plain(model: Any, tokens: torch.Tensor, call: dict[str, Any]) -> bool:
    """Whether a call begins with an empty cache, its steps have the masks and positions
    that LookAhead knows, and the model's forward has no hooks."""
    cache = call.get("past_key_values")
    mask, positions = call.get("attention_mask"), call.get("position_ids")
    return (
        type(cache) is KeyValueCache
        and int(cache.get_seq_length()) == 0
        and all(name in KNOWN or value is None for name, value in call.items())
        and call.get("logits_to_keep", 1) == 1
        and (mask is None or mask.shape == tokens.shape)
        and (positions is None or positions.dim() == 2)
        and (positions is None or positions.shape[1] == tokens.shape[1])
        and not model._forward_hooks
        and not model._forward_pre_hooks
        and all(m.dim() == 4 for m in each(made_masks(model, cache, (1, 1))))
    )


def _grown(mask: torch.Tensor, new: int) -> torch.Tensor:
    return torch.cat([mask, mask.new_ones((mask.shape[0], new))], 1)


class Answer:
    """The tokens of all rows, as transformers' loop chooses them."""

    def __init__(
        self,
        prompt: torch.Tensor,
        processors: LogitsProcessorList,
        criteria: StoppingCriteriaList,
        config: Any,
        streamer: Any,
        graphs: SamplingGraphs,
    ) -> None:
        self._tokens, self._pending = prompt, list[torch.Tensor]()
        self._length = prompt.shape[1]
        self._processors, self._streamer = processors, streamer
        self._light = all(map(is_light, processors))
        self._greedy = not processors and not config.do_sample
        self._draws = None
        if config.do_sample:
            self._draws = TokenDraws(graphs, processors, prompt)
        self._pad = config._pad_token_tensor
        self._pads = any(hasattr(one, "eos_token_id") for one in criteria)
        self._unfinished = [True] * prompt.shape[0]
        self._endings = Endings(criteria)

    @property
    def room(self) -> float:
        """How many tokens the rows still take."""
        return self._endings.longest - self._length

    @property
    def last(self) -> torch.Tensor:
        """The newest tokens, [rows, 1]."""
        return self._last.unsqueeze(1)

    def grow(self, logits: torch.Tensor, likeliest: torch.Tensor | None) -> bool:
        """Adds the tokens that these logits give. True: all rows are complete.
        `likeliest` are the words with the largest logits; None: not known."""
        if self._greedy and likeliest is not None:
            return self._add(likeliest)
        scores = logits[:, -1]
        if self._draws is not None:
            return self._add(self._draws.next(scores, self._join))
        # Processors of users may need all threads.
        with one_thread(scores) if self._light else contextlib.nullcontext():
            scores = scores.float()
            if self._processors:
                scores = self._processors(self._join(), scores)
            # The first of equal ones, as argmax finds it in three times the time.
            new = scores.max(-1).indices
        return self._add(new)

    def _add(self, new: torch.Tensor) -> bool:
        if self._pads and not all(self._unfinished):
            unfinished = torch.tensor(self._unfinished)
            new = torch.where(unfinished, new, self._pad)
        self._last = new
        self._pending.append(new)
        self._length += 1
        ended = self._endings.after(new.tolist(), self._length, self._join)
        self._unfinished = [a and not b for a, b in zip(self._unfinished, ended)]
        if self._streamer is not None:
            self._streamer.put(new.cpu())
        return not any(self._unfinished)

    def _join(self) -> torch.Tensor:
        """The prompts and their answers, [rows, tokens]."""
        if self._pending:
            parts = [self._tokens, torch.stack(self._pending, 1)]
            self._tokens, self._pending = torch.cat(parts, 1), []
        return self._tokens

    def end(self) -> torch.Tensor:
        if self._streamer is not None:
            self._streamer.end()
        return self._join()
