"""Compares everything that a recording depends on: all of it at the first call, and at
later calls what may have changed since."""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import _C
from ..recording import Recording, Stale
from ..source import MISSING, Place, Source, identity, values
from .argument_check import Wrap, refusing, replaying
from .argument_sizes import check_sizes, other_size
from .module_state import ModuleTable
from .same_value import same

Call = Callable[..., Any]
Row = tuple[Source, Any]


class Comparisons:
    """The comparisons of one recording, for one method. Call `compare` first; then
    `checked_graph` and `method_check` make the comparisons of later calls.

    C++ compares values in dicts, lists and closures, before it runs the graph; a Python
    expression compares the others, before the method's code runs. Stale: something is
    not what the trace saw, and nothing has run.
    """

    def __init__(self, recording: Recording, method: types.MethodType) -> None:
        self.recording = recording
        self.function: Any = method.__func__
        self.module = method.__self__
        self._table = ModuleTable(self.module, self.function)
        self._left: list[Row] = []  # sources that the table does not compare

    def compare(self, args: Any, kwargs: Any) -> None:
        """Compares every source in a call with these arguments."""
        rows = (*self.recording.constants, *self.recording.types)
        found = self._values([source for source, _ in rows], args, kwargs)
        for value, (source, known) in zip(found, rows):
            # A recording cannot hold classes, and has their names.
            named = identity(value) if isinstance(value, type) else value
            if not same(named, known):
                raise Stale(f"{source.text} was {known!r} and is {value!r}")
        self._left = [(source, value) for value, (source, _) in zip(found, rows)]

    def _values(self, sources: Sequence[Source], args: Any, kwargs: Any) -> list[Any]:
        found = [self._table.read(source) for source in sources]
        left = [number for number, value in enumerate(found) if value is MISSING]
        locals_ = bind(self.function, self.module, args, kwargs)
        try:
            evaluated = values(
                [sources[number] for number in left], self.function, locals_
            )
        except Exception as error:
            raise Stale(f"a value can't be read: {error}") from error
        for number, value in zip(left, evaluated):
            found[number] = value
        return found

    def checked_graph(self, graph: Call) -> Call:
        """The graph's call, which fetches parameters from the module and compares values
        there. If the recording's code passes all arguments itself, this is `graph`."""
        recording, table = self.recording, self._table
        if recording.fetched is None:
            return graph
        for number, path in recording.fetched:
            table.fetch(number, path)
        self._left = [row for row in self._left if not table.compare(*row)]
        for source in recording.identities:
            table.identify(source)
        self._left = [row for row in self._left if not row[0].is_for_first_call]
        defaults = Source("the defaults", Place("F", [(True, "__defaults__")]))
        table.compare(defaults, self.function.__defaults__)
        return table.around(graph, recording.calling.arguments)

    def method_check(self) -> Wrap:
        """A wrapper of the method's calls that refuses another global state than that of
        now, and arguments that differ from those of the trace."""
        by_size = self.recording.calling.guards_by_source
        plain = [row for row in self._left if row[0].text not in by_size]
        sizes = [row for row in self._left if row[0].text in by_size]
        text = " and ".join(source.text for source, _ in sizes)
        wrong = ValueError(f"an argument has sizes other than {text}")
        traced = replaying(self.function, plain)
        sized = refusing(self.function, sizes, wrong)
        return lambda call: traced(sized(call))


def compare_arguments(
    recording: Recording, arguments: Sequence[Any], strict: bool
) -> None:
    """Compares the graph's arguments of the first call: frozen values with the hashes in
    the recording, and sizes. With `strict`, other sizes and strides than those of the
    trace are an error; otherwise other sizes are Stale."""
    calling = recording.calling
    for index, known in calling.constants:
        value = arguments[index].detach().contiguous()
        if _C.hash_tensor(value) != known:
            raise Stale(f"frozen argument {index} has other values")
    if strict:
        check_sizes(calling.inputs, arguments)
    elif reason := other_size(calling.inputs, arguments):
        # Keys have the sizes of arguments, and not those of tensors in objects.
        raise Stale(reason)


def bind(
    function: Any, module: Any, args: Any, kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The local variables of a call, by name, and those that the function closes over."""
    bound = inspect.signature(function).bind(module, *args, **kwargs)
    bound.apply_defaults()
    cells = function.__closure__ or ()
    closed = {}
    for name, cell in zip(function.__code__.co_freevars, cells):
        with contextlib.suppress(ValueError):
            closed[name] = cell.cell_contents
    return {**bound.arguments, **closed}
