"""Lets guards that passed once pass while nothing that they read has changed.

Dynamo's guards look at each attribute of each module that a trace has read, at every
call. For 200 modules the walk takes some tenths of a millisecond, most of it waiting for
memory. Here one guard stands for those whose values CPython counts the changes of:
it compares numbers (GuardedState.h), and only where one differs it asks the guards
themselves, which are kept as Dynamo builds them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

from torch._dynamo.guards import GuardManagerWrapper
from torch._guards import Guard, TracingContext

from .. import _C
from .reads import Read, read_of
from .walk import Unknown, Walk

# A walk takes longer than the guards do. Where models change again and again, there are
# at most so many, and one more for each so many calls that none was needed for.
WALKS, CALLS_OF_A_WALK = 64, 64


class _Counted(Guard):
    """A guard that may be built apart. Dynamo sees it as it was: its other methods and
    fields are those of the guard that it is made of."""

    def __init__(self, guard: Guard, read: Read) -> None:
        for field in dataclasses.fields(guard):
            setattr(self, field.name, getattr(guard, field.name))
        self.read = read

    def create(self, builder: Any) -> Any:
        """Called by Dynamo, which may build the guards of a trace twice, and builds a
        part of them where the caller filters them."""
        if builder.save_guards or not _Apart.of(builder).take(self):
            return super().create(builder)
        return None


def install() -> None:
    """Has the guards of the current trace whose changes are counted built apart. Leaves
    all as they are where this CPython counts none."""
    context = TracingContext.try_get()
    if context is None or not _C.GuardedState.is_possible():
        return
    guards = context.guards_context.dynamo_guards.inner
    for guard in list(guards):
        if type(guard) is Guard and (read := read_of(guard)):
            guards.discard(guard)
            guards.add(_Counted(guard, read))


class _Apart:
    """The guards of one builder that are built in a tree of their own."""

    def __init__(self, builder: Any) -> None:
        self._globals = builder.scope["G"]
        self._walk = Walk(builder.scope["L"], self._globals)
        self._reads: list[Read] = []
        self._builder = apart = copy.copy(builder)
        apart.guard_manager = GuardManagerWrapper()
        apart._cached_guard_managers = {}
        apart._cached_duplicate_input_guards = set()
        apart.object_aliasing_guard_codes = []
        apart.already_added_code_parts = type(builder.already_added_code_parts)()
        self._finish_with(builder.guard_manager)

    @classmethod
    def of(cls, builder: Any) -> _Apart:
        if not hasattr(builder, "anabranch_apart"):
            builder.anabranch_apart = cls(builder)
        return builder.anabranch_apart

    def take(self, guard: _Counted) -> bool:
        """Builds the guard, unless it must be asked at each call."""
        try:
            guard.read.note(self._walk)
        except (Unknown, LookupError):
            return False
        Guard.create(guard, self._builder)
        self._reads.append(guard.read)
        return True

    def _finish_with(self, manager: Any) -> None:
        """Adds the one guard at the end of the manager's own."""
        finalize = manager.finalize

        def finish() -> None:
            del manager.finalize
            self._add_to(manager.root)
            finalize()

        manager.finalize = finish

    def _add_to(self, root: Any) -> None:
        if codes := self._builder.object_aliasing_guard_codes:
            parts = map(list, zip(*codes))
            self._builder.add_python_lambda_leaf_guard_to_root(*parts)
        reasons = ["something that the trace has read is another"]
        manager = self._builder.guard_manager
        asked = _Asked(manager.root, self._reads, self._globals, reasons)
        passed = _C.PassedGuards(asked)
        passed.remember(self._walk.finish())
        root.add_epilogue_lambda_guard(passed, reasons, None)


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
