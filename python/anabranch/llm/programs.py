"""The programs of one compiled method, each made at the first call that needs it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from torch._dynamo.exc import InternalTorchDynamoError, Unsupported

from .. import Config
from ..extension import CachedMethod, CachePolicy, check_method

Program = Callable[..., Any]


class StepPolicy(CachePolicy):
    """A method of a model, whose calls have the sizes of the first one but for the
    symbols."""

    replays_at_once = True


class Programs:
    """One program for each key, such as a pair of rows and tokens. It is compiled, or
    read from the compile cache."""

    def __init__(
        self, config: Config, folder: str | None, made: Callable[[], object]
    ) -> None:
        """`made` is called after a program has read its weights."""
        self._config, self._folder, self._made = config, folder, made
        self._programs: dict[Hashable, Program] = {}

    def __len__(self) -> int:
        return len(self._programs)

    def call(
        self, key: Hashable, method: Program, *args: Any, first: Any = None
    ) -> Any:
        """The method's result for these arguments. `first` makes the arguments of a new
        program's first call, which determine its key in the cache. RuntimeError: Dynamo
        cannot trace the method."""
        program = self._programs.get(key)
        if program is not None:
            return program(*args)
        program = self._program(method)
        try:
            if first is not None:
                program(*first())
            found = program(*args)
        except (InternalTorchDynamoError, Unsupported) as error:
            reason = str(error).partition("\n")[0]
            raise RuntimeError(
                "Dynamo cannot trace the model's step over a static cache"
                f" ({reason}): call the model's own generate() instead"
            ) from error
        self._programs[key] = program
        self._made()
        return found

    def _program(self, method: Program) -> Program:
        policy = StepPolicy(
            check_method(method),
            config=self._config,
            dynamic=False,
            root=self._folder,
        )
        return CachedMethod(policy).callable()
