"""Calls a recorded method again, without Dynamo.

Imports nothing of the compiler's front end: a warm start takes as long as this module
does."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ... import _C, collector
from ...packages.optimizers import count_fused_steps
from ...packages.refreshing import Packed
from ..lookup.comparisons import Comparisons, compare_arguments
from ..recording import Changed, Recording
from ..source import look_up
from .graph_call import graph_call
from .linked_code import LinkedCode

Call = Callable[..., Any]


class Replay:
    """One recording, for one method. `start` makes the first call; after it, `function`
    takes the module and the method's arguments.

    The first call compares everything, also frozen values with the live ones; with
    `strict`, sizes and strides with those of the trace. Later calls compare what
    `Comparisons` says. Stale: something differs, and nothing has run.
    """

    def __init__(
        self,
        method: types.MethodType,
        recording: Recording,
        executable: _C.Executable,
        strict: bool = False,
        freeze: bool | str = False,
    ) -> None:
        self.method = method
        self.recording = recording
        self.executable = executable
        self.strict = strict
        self.freeze = freeze
        self.function: Call | None = None
        self.report = ""  # the report of the compilation, as JSON
        # Called with the graph's arguments before its first call.
        self.noticed: Callable[[Sequence[Any]], None] | None = None
        self._code = LinkedCode(recording, method.__func__)
        self._graph = graph_call(executable, recording.calling)

    def start(self, args: Any, kwargs: Any) -> Any:
        """Makes the first call, which compares everything. `function` is set when the
        comparison before the call is done."""
        code = self._code
        with collector.at_rest():
            comparisons = Comparisons(self.recording, self.method)
            comparisons.compare(args, kwargs)
            graph = comparisons.checked_graph(self._graph)
            check = comparisons.method_check()
            self.function = check(code.link(code.add_global(graph)))

        def first(*given: Any) -> Any:
            self._before_first(self._arguments(given))
            return graph(*given)

        name = code.add_global(first)
        try:
            return check(code.link(name))(self.method.__self__, *args, **kwargs)
        finally:
            # `first` refers to the module, which must not live as long as the globals.
            code.drop_global(name)

    def _arguments(self, given: Sequence[Any]) -> Sequence[Any]:
        """All arguments of the graph: those that the code passes, and those that C++
        fetches."""
        if self.recording.fetched is None:
            return given
        fetched = dict(self.recording.fetched)
        rest = iter(given[1:])
        return [
            look_up(given[0], fetched[number]) if number in fetched else next(rest)
            for number in range(self.recording.calling.arguments)
        ]

    def _before_first(self, arguments: Sequence[Any]) -> None:
        """Gets the graph's arguments before the graph's first call."""
        constants = self.recording.calling.constants
        if frozen := [arguments[index] for index, _ in constants]:
            count_fused_steps()
            _follow(self.executable, frozen, constants, self.freeze, self.method)
        compare_arguments(self.recording, arguments, self.strict)
        if self.noticed is not None:
            self.noticed(arguments)


def _follow(
    executable: _C.Executable,
    tensors: Sequence[torch.Tensor],
    constants: Sequence[tuple[int, str]],
    freeze: bool | str,
    method: types.MethodType,
) -> None:
    """Has calls of the executable look for changes of these frozen weights of a method's
    module. `constants` has the hash of each."""

    held = weakref.ref(executable)

    def has_changed() -> None:
        """Lets the next call find a change, whatever versions say: its tensor is gone."""
        if (alive := held()) is not None:
            alive.follow(_C.FrozenWeights([torch.empty(1)]), refuse)

    hashes = [known for _, known in constants]
    packed = Packed(tensors, hashes, has_changed, method.__self__)
    refuse = functools.partial(_refuse_changes, freeze, packed)
    executable.follow(_C.FrozenWeights(tensors), refuse)


def _refuse_changes(freeze: bool | str, _packed: Packed) -> None:
    """Runs before a call that finds frozen weights changed: raises Changed, or
    FrozenWeightError where `freeze` is "strict". The executable holds it, and so what
    `refresh` knows of the weights."""
    if freeze != "strict":
        raise Changed("frozen weights changed")
    from ...errors import FrozenWeightError  # imports Dynamo

    raise FrozenWeightError("frozen weights changed, and freeze='strict' forbids it")
