"""Lets guards that passed once pass while nothing that they read has changed.

Dynamo's guards look at each attribute of each module that a trace has read, at every
call. The walk takes a tenth of a millisecond for some dozen modules, most of it waiting
for memory. Here one guard stands for those whose values CPython counts the changes of:
it compares numbers (GuardedState.h), and only where one differs it asks the guards
themselves, which are kept as Dynamo builds them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from torch._dynamo.guards import GuardManagerWrapper
from torch._guards import Guard, TracingContext

from .. import _C
from .reads import Read, read_of
from .walk import Unknown, Walk

# A walk takes longer than the guards do. Where models change again and again, there are
# at most so many, and one more for each so many calls that none was needed for.
WALKS, CALLS_OF_A_WALK = 64, 64

Pairs = Sequence[tuple[Guard, Read]]


def install() -> None:
    """Puts one guard in the place of those of the current trace whose changes are
    counted. Leaves all where this CPython counts none."""
    context = TracingContext.try_get()
    if context is None or not _C.GuardedState.is_possible():
        return
    guards = context.guards_context.dynamo_guards
    chosen = [(guard, read) for guard in guards.inner if (read := read_of(guard))]
    if not chosen:
        return
    for guard, _ in chosen:
        guards.inner.discard(guard)
    guards.add(_variable(chosen).make_guard(_standing_for(chosen)))


def _variable(chosen: Pairs) -> Any:
    """The source of a variable that the guards begin at, a local one if there is one."""
    found = min(chosen, key=lambda pair: not pair[1].ways[0].is_local)[0]
    source: Any = found.originating_source
    while (base := getattr(source, "base", None)) is not None:
        source = base
    return source


def _standing_for(chosen: Pairs) -> Callable[..., None]:
    """A function that Dynamo calls to build the guard."""

    def PASSED_BEFORE(builder: Any, guard: Guard) -> None:
        walk = Walk(builder.scope["L"], builder.scope["G"])
        counted: list[tuple[Guard, Read]] = []
        for one, read in sorted(chosen, key=lambda pair: pair[0].sort_key()):
            try:
                read.note(walk)
                counted.append((one, read))
            except (Unknown, LookupError):
                one.create(builder)
        if counted:
            _add(builder, guard, counted, walk.finish())

    return PASSED_BEFORE


def _add(builder: Any, guard: Guard, counted: Pairs, state: _C.GuardedState) -> None:
    """Adds the guard that stands for others. `state`: what they depend on."""
    manager = _built_apart(builder, [one for one, _ in counted])
    reasons = ["something that the trace has read is another"]
    asked = _Asked(
        manager.root, [read for _, read in counted], builder.scope["G"], reasons
    )
    passed = _C.PassedGuards(asked)
    passed.remember(state)
    builder.guard_manager.root.add_epilogue_lambda_guard(
        passed, reasons, guard.user_stack
    )


def _built_apart(builder: Any, guards: Sequence[Guard]) -> Any:
    """The guards, built by a builder like this one, in a tree of their own."""
    apart = copy.copy(builder)
    apart.guard_manager = GuardManagerWrapper()
    apart._cached_guard_managers = {}
    apart._cached_duplicate_input_guards = set()
    apart.object_aliasing_guard_codes = []
    apart.already_added_code_parts = type(builder.already_added_code_parts)()
    for guard in guards:
        guard.create(apart)
    if apart.object_aliasing_guard_codes:
        parts = zip(*apart.object_aliasing_guard_codes)
        apart.add_python_lambda_leaf_guard_to_root(*map(list, parts))
    return apart.guard_manager


class _Asked:
    """The guards themselves, asked where something has changed."""

    def __init__(
        self,
        root: Any,
        reads: Sequence[Read],
        globals_: dict[str, Any],
        reasons: list[str],
    ) -> None:
        self._root = root
        self._reads = reads
        self._globals = globals_
        self._reasons = reasons  # of a failure, which Dynamo shows
        self._walks = 0

    def __call__(self, passed: _C.PassedGuards, locals_: Any) -> bool:
        """Whether the guards pass in a frame with these local variables."""
        if not self._root.check(locals_):
            found = self._root.check_verbose(locals_).verbose_code_parts
            self._reasons[:] = found or self._reasons
            return False
        if self._walks < WALKS + passed.passed // CALLS_OF_A_WALK:
            self.walk(passed, locals_)
        return True

    def walk(self, passed: _C.PassedGuards, locals_: Any) -> None:
        """Notes what the guards, which have passed, depend on now."""
        self._walks += 1
        walk = Walk(locals_, self._globals)
        try:
            for read in self._reads:
                read.note(walk)
        except (Unknown, LookupError):
            return
        passed.remember(walk.finish())
