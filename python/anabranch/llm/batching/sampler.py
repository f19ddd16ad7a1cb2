"""Chooses the next token of one request of a batch, as transformers' generate() does."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from transformers.generation.configuration_utils import GenerationMode

from ..sampling.calling_thread import is_light, one_thread
from ..sampling.endings import Endings
from ..sampling.token_draws import TokenDraws

MODES = (GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE)


class Sampler:
    """The logits processors, the random draws and the end of one request."""

    def __init__(
        self,
        model: Any,
        prompt: list[int],
        seed: int | None,
        settings: Mapping[str, Any],
    ) -> None:
        """`settings` are arguments of generate(). ValueError: generate() has no such
        argument, or it needs several rows of a request, as beams do."""
        more = dict(settings)
        processors = more.pop("logits_processor", None)
        criteria = more.pop("stopping_criteria", None)
        tokenizer = more.pop("tokenizer", None)
        given = more.pop("generation_config", None)
        lengths = [
            all(
                getattr(one, name, None) is None
                for one in (given, model.generation_config)
            )
            and more.get(name) is None
            for name in ("max_length", "min_length")
        ]
        config, unknown = model._prepare_generation_config(given, **more)
        if unknown:
            raise ValueError(
                f"a request of a batch takes no {', '.join(sorted(unknown))}"
            )
        mode = config.get_generation_mode()
        if mode not in MODES or (config.num_return_sequences or 1) > 1:
            raise ValueError(
                "a request of a batch is greedy or sampled and has one answer, and"
                f" this one asks for {mode.value.replace('_', ' ')} with"
                f" {config.num_return_sequences or 1}: use generate()"
            )
        model._prepare_special_tokens(config, True, device="cpu")
        ids = torch.tensor([prompt])
        length: dict[str, Any] = {
            "has_default_max_length": lengths[0],
            "has_default_min_length": lengths[1],
            "model_input_name": "input_ids",
            "inputs_tensor": ids,
            "input_ids_length": len(prompt),
        }
        config = model._prepare_generated_length(generation_config=config, **length)
        self.max_length: int = config.max_length
        self._processors = model._get_logits_processor(
            generation_config=config,
            input_ids_seq_length=len(prompt),
            encoder_input_ids=ids,
            logits_processor=processors or [],
            device="cpu",
        )
        self._light = all(map(is_light, self._processors))
        self._draws: TokenDraws | None = None
        if config.do_sample:
            generator = None if seed is None else torch.Generator().manual_seed(seed)
            graphs = model.sampling_graphs
            self._draws = TokenDraws(graphs, self._processors, ids, generator)
        self._endings = Endings(
            model._get_stopping_criteria(
                generation_config=config,
                stopping_criteria=criteria or [],
                tokenizer=tokenizer,
            )
        )

    def next(
        self, tokens: list[int], logits: torch.Tensor, likeliest: int
    ) -> tuple[int, bool]:
        """The next token after `tokens`; and whether it is the last one.

        logits     [vocabulary]
        likeliest  the token with the largest of them
        """
        token = self._chosen(tokens, logits.unsqueeze(0), likeliest)
        (ends,) = self._endings.after(
            [token], len(tokens) + 1, lambda: torch.tensor([[*tokens, token]])
        )
        return token, ends

    def _chosen(self, tokens: list[int], logits: torch.Tensor, likeliest: int) -> int:
        if self._draws is not None:
            return int(self._draws.next(logits, lambda: torch.tensor([tokens])))
        if not self._processors:
            return likeliest
        with one_thread(logits) if self._light else contextlib.nullcontext():
            scores = logits.to(torch.float32, copy=True)
            return int(self._processors(torch.tensor([tokens]), scores).argmax(-1))
