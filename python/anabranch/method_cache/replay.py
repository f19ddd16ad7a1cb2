"""Calls a recorded method again, without Dynamo.

Imports nothing of the compiler's front end: a warm start takes as long as this module
does."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _C, collector
from ..packages.optimizers import count_fused_steps
from . import bytecode, dynamo
from .argument_check import Wrap, refusing, replaying
from .calling import check_sizes, graph_call, other_size
from .module_state import ModuleTable
from .recording import Changed, Recording, Stale
from .source import MISSING, Place, Source, identity, look_up, values

Call = Callable[..., Any]

_numbers = itertools.count()


class Replay:
    """One recording, for one method. `start` makes the first call; after it, `function`
    takes the module and the method's arguments.

    The first call compares frozen values with the live ones; with `strict`, also sizes
    and strides with those of the trace. Every call compares attributes, globals and
    arguments with the values that the trace took for constant. C++ compares values in
    dicts, lists and closures; a Python expression compares the others. Stale: something
    differs, and nothing has run.
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
        self.calling = recording.calling
        self.executable = executable
        self.strict = strict
        self.freeze = freeze
        self.function: Call | None = None
        self.report = ""  # the report of the compilation, as JSON
        # Called with the graph's arguments before its first call.
        self.noticed: Callable[[Sequence[Any]], None] | None = None
        function = method.__func__
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        if not set(recording.code.co_freevars) <= set(cells):
            raise Stale("the method closes over other names")
        self._cells = cells
        self._graph = graph_call(executable, recording.calling)
        # Globals that Dynamo added get new names in the module.
        self._names: dict[str, str] = {}
        for name, recipe in recording.globals.items():
            if recipe != dynamo.GRAPH:
                self._names[name] = self._add_global(dynamo.make_global(recipe))

    def start(self, args: Any, kwargs: Any) -> Any:
        """Makes the first call, which compares everything. `function` is set when the
        comparison before the call is done."""
        function, module = self.method.__func__, self.method.__self__
        with collector.at_rest():
            table = ModuleTable(module, function)
            left = self._found(table, bind(function, module, args, kwargs))
            call = self._graph
            if self.recording.fetched is not None:
                call, left = self._follow(table, self.recording.fetched, left)
            check = self._check(left)
            self.function = check(self._link(self._add_global(call)))

        def first(*given: Any) -> Any:
            arguments = self._arguments(given)
            self._compare(arguments)
            if self.noticed is not None:
                self.noticed(arguments)
            return call(*given)

        name = self._add_global(first)
        try:
            return check(self._link(name))(module, *args, **kwargs)
        finally:
            # `first` refers to the module, which must not live as long as the globals.
            del function.__globals__[name]

    def _found(
        self, table: ModuleTable, locals_: Mapping[str, Any]
    ) -> list[tuple[Source, Any]]:
        """The sources that calls compare, with their values in a call with these locals.
        Stale: a value is not what the trace saw."""
        constants = (*self.recording.constants, *self.recording.types)
        sources = [source for source, _ in constants]
        found = [table.read(source) for source in sources]
        left = [number for number, value in enumerate(found) if value is MISSING]
        try:
            evaluated = values(
                [sources[number] for number in left], self.method.__func__, locals_
            )
        except Exception as error:
            raise Stale(f"a value can't be read: {error}") from error
        for number, value in zip(left, evaluated):
            found[number] = value
        for value, (source, known) in zip(found, constants):
            # A recording cannot hold classes, and has their names.
            named = identity(value) if isinstance(value, type) else value
            if type(named) is not type(known) or named != known:
                raise Stale(f"{source.text} was {known!r} and is {value!r}")
        return list(zip(sources, found))

    def _add_global(self, value: Any) -> str:
        name = f"__anabranch_{next(_numbers)}"
        self.method.__func__.__globals__[name] = value
        return name

    def _link(self, graph: str) -> Call:
        """The code as a function over the globals of the method's module. The global
        with this name is the graph."""
        function, code = self.method.__func__, self.recording.code
        names = self._names | {
            name: graph
            for name, recipe in self.recording.globals.items()
            if recipe == dynamo.GRAPH
        }
        linked = types.FunctionType(
            bytecode.rename(code, names),
            function.__globals__,
            function.__name__,
            function.__defaults__,
            tuple(self._cells[name] for name in code.co_freevars),
        )
        linked.__kwdefaults__ = function.__kwdefaults__
        return linked

    def _follow(
        self,
        table: ModuleTable,
        fetched: Sequence[tuple[int, Any]],
        constants: Sequence[tuple[Source, Any]],
    ) -> tuple[Call, list[tuple[Source, Any]]]:
        """Two values: the graph's call, which compares values that the table can reach;
        and the constants that it cannot reach."""
        function = self.method.__func__
        for number, path in fetched:
            table.fetch(number, path)
        left = [row for row in constants if not table.compare(*row)]
        for source in self.recording.identities:
            table.identify(source)
        # Later calls compare the objects themselves. Functions of classes are not
        # compared again.
        first_only = ("identity(", dynamo.DIGEST, dynamo.OF_CLASSES)
        left = [row for row in left if not any(w in row[0].text for w in first_only)]
        defaults = Source("the defaults", Place("F", [(True, "__defaults__")]))
        table.compare(defaults, function.__defaults__)
        return table.around(self._graph, self.calling.arguments), left

    def _check(self, left: Sequence[tuple[Source, Any]]) -> Wrap:
        """A wrapper of calls that refuses another global state than that of now, and
        arguments that differ from these constants of the trace."""
        function, by_size = self.method.__func__, self.calling.guards_by_source
        plain = [row for row in left if row[0].text not in by_size]
        sizes = [row for row in left if row[0].text in by_size]
        text = " and ".join(source.text for source, _ in sizes)
        wrong = ValueError(f"an argument has sizes other than {text}")
        traced, sized = replaying(function, plain), refusing(function, sizes, wrong)
        return lambda call: traced(sized(call))

    def _arguments(self, given: Sequence[Any]) -> Sequence[Any]:
        """All arguments of the graph: those that the code passes, and those that C++
        fetches."""
        if self.recording.fetched is None:
            return given
        fetched = dict(self.recording.fetched)
        rest = iter(given[1:])
        return [
            look_up(given[0], fetched[number]) if number in fetched else next(rest)
            for number in range(self.calling.arguments)
        ]

    def _compare(self, arguments: Sequence[Any]) -> None:
        frozen = [arguments[index] for index, _ in self.calling.constants]
        if frozen:
            count_fused_steps()
            refuse = functools.partial(_refuse_changes, self.freeze)
            self.executable.follow(_C.FrozenWeights(frozen), refuse)
        for index, known in self.calling.constants:
            value = arguments[index].detach().contiguous()
            if _C.hash_tensor(value) != known:
                raise Stale(f"frozen argument {index} has other values")
        if self.strict:
            check_sizes(self.calling.inputs, arguments)
        elif reason := other_size(self.calling.inputs, arguments):
            # Keys have the sizes of arguments, and not those of tensors in objects.
            raise Stale(reason)


def _refuse_changes(freeze: bool | str) -> None:
    """Runs before a call that finds frozen weights changed: raises Changed, or
    FrozenWeightError where `freeze` is "strict"."""
    if freeze != "strict":
        raise Changed("frozen weights changed")
    from ..errors import FrozenWeightError  # imports Dynamo

    raise FrozenWeightError("frozen weights changed, and freeze='strict' forbids it")


def bind(function: Any, module: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The local variables of a call, by name, and those that the function closes over."""
    bound = inspect.signature(function).bind(module, *args, **kwargs)
    bound.apply_defaults()
    cells = function.__closure__ or ()
    closed = {}
    for name, cell in zip(function.__code__.co_freevars, cells):
        with contextlib.suppress(ValueError):
            closed[name] = cell.cell_contents
    return {**bound.arguments, **closed}
