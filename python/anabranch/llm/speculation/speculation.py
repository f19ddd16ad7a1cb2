"""What a compiled model has for guesses and checks; each part is made when it is first
needed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..key_values import CacheMemory, KeyValues
from ..programs import Programs
from .assistant import AssistantDrafts, AssistantLoop
from .eagle_checkpoint import Eagle3
from .eagle_drafts import EagleDrafts, EagleLoop
from .placed_steps import PlacedModel, PlacedSteps
from .prompt_lookup import LookupDrafts
from .speculative_loop import Checks, Drafts


class Speculation:
    """The checks of one model, and the guesses for it."""

    def __init__(
        self,
        model: Any,
        key_values: KeyValues,
        programs: Callable[[], Programs],
        compiled: Callable[[Any], Any],
        eagle: Eagle3 | None,
    ) -> None:
        """`compiled` makes the LanguageModel of an assistant. ValueError: the head does
        not belong to the model, or needs what the model's steps do not give."""
        self._model, self._key_values = model, key_values
        self._programs, self._compiled = programs, compiled
        self._assistant: tuple[Any, Speculation] | None = None
        self._eagle: tuple[PlacedSteps, EagleLoop] | None = None
        if eagle is not None:
            capacity = key_values.capacity
            head = eagle.head(model)
            placed = PlacedModel(model, eagle.layers(model)).eval()
            self._eagle = (
                PlacedSteps(placed, capacity, programs()),
                EagleLoop(head, eagle.guesses, capacity, programs()).eval(),
            )

    @property
    def has_head(self) -> bool:
        return self._eagle is not None

    def of_head(self, memory: CacheMemory) -> tuple[EagleDrafts, Checks]:
        """The guesses of the model's head, and checks that give its features."""
        assert self._eagle is not None
        steps, loop = self._eagle
        return EagleDrafts(loop), Checks(steps, memory, self._key_values.capacity)

    @functools.cached_property
    def placed(self) -> PlacedModel | None:
        """None: this model's steps need masks or positions of another form."""
        try:
            return PlacedModel(self._model).eval()
        except ValueError:
            return None

    @functools.cached_property
    def _steps(self) -> PlacedSteps:
        assert self.placed is not None
        return PlacedSteps(self.placed, self._key_values.capacity, self._programs())

    @functools.cached_property
    def loop(self) -> AssistantLoop:
        """The programs of this model as an assistant."""
        assert self.placed is not None
        return AssistantLoop(self.placed, self._key_values, self._programs())

    def checks(self, memory: CacheMemory) -> Checks:
        return Checks(self._steps, memory, self._key_values.capacity)

    def drafts(self, config: Any, assistant: Any) -> Drafts | None:
        """The guesses that a call of generate() asks for. None: they are made in
        transformers' loop only."""
        if self.placed is None:
            return None
        if config.prompt_lookup_num_tokens is not None:
            return LookupDrafts(config)
        if assistant is None:
            return None
        its = self._of(assistant)
        if its is None or its.placed is None:
            return None
        return AssistantDrafts(its.loop, assistant.generation_config)

    def _of(self, assistant: Any) -> Speculation | None:
        """The programs of an assistant. Those of the last one are kept. None: it cannot
        be compiled."""
        made: Speculation | None = getattr(assistant, "speculation", None)
        if made is not None:
            return made
        if self._assistant is None or self._assistant[0] is not assistant:
            try:
                compiled = self._compiled(assistant)
            except ValueError:
                return None
            self._assistant = assistant, compiled.model.speculation
        return self._assistant[1]
