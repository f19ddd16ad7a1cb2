"""Follows the compilation of a method and makes its Recording.

Only a compilation imports this module; a start from the cache does not."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.fx

from ...capture.observer import observing
from ...collectives.operators import are_in
from ...describe.description import Description, InputSource
from .. import code_globals
from ..bytecode import is_plain
from ..calling import Calling
from ..recording import NotCacheable, Recording, file_hash
from ..source import Path, Source, identity, look_up
from . import aot_wrapper, parameter_fetch
from .code_hook import translations
from .guards import GuardedNames, guarded_names, is_private

# PyTorch and this package. The entry's key has their versions.
_HIDDEN = (
    os.path.dirname(torch.__file__) + os.sep,
    str(pathlib.Path(__file__).absolute().parents[2]) + os.sep,
)


class Recorder:
    """The observer of the compilation of one method. `folder` keeps the package."""

    def __init__(self, method: types.MethodType, folder: str) -> None:
        self.function = method.__func__
        self.module = method.__self__
        self.folder = os.path.join(folder, "package")
        self.code: types.CodeType | None = None
        self.traces = 0
        self.refusal = ""
        self.calling: Calling | None = None
        self.described: Description | None = None
        self.places: dict[str, int] = {}  # of graph arguments, by their names
        self.expressions: dict[int, str] = {}  # Dynamo's source of each argument
        self.readable = ""
        self.report: dict[str, Any] = {}
        # keys of static kernels that were added to the executable
        self.kernels: list[str] = []
        self.sources: dict[str, str] = {}
        self.names_before = set(self.function.__globals__)
        self._guarded = GuardedNames()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Follows the compilation inside the block."""
        with translations(self._translated), observing(self):
            yield

    def _translated(self, old: types.CodeType, new: types.CodeType) -> None:
        if old is self.function.__code__:
            self.code = new
            self.traces += 1

    # The methods of an Observer

    def refuse(self, reason: str) -> None:
        self.refusal = self.refusal or reason

    def package(self, folder: str, report: dict[str, Any]) -> None:
        self.report = report
        shutil.rmtree(self.folder, ignore_errors=True)
        ignore = shutil.ignore_patterns("entry.json")
        shutil.copytree(folder, self.folder, ignore=ignore)

    def graph(
        self,
        module: torch.fx.GraphModule,
        described: Description,
        sources: Sequence[InputSource],
    ) -> None:
        from torch._guards import TracingContext

        aot_wrapper.check_random(module)
        context = TracingContext.get()
        # Dynamo may trace again; an earlier trace is then void.
        self.refusal = ""
        if are_in(described.graph):
            self.refuse("its collectives belong to groups of this process")
        self.sources = _source_hashes(context.traced_code)
        self.readable = module.print_readable(print_output=False)
        try:
            self._guarded = guarded_names(context)
            arguments = aot_wrapper.argument_positions(module)
            self.calling = aot_wrapper.calling(
                described, arguments, context.fw_metadata, module
            )
            for entry, source in zip(self.calling.inputs, sources):
                entry |= {"kind": source.kind, "label": source.label}
            nodes = module.graph.find_nodes(op="placeholder")
            self.places = {n.name: place for n, place in zip(nodes, arguments)}
            self.expressions = {
                place: source.expression for place, source in zip(arguments, sources)
            }
            self.described = described
        except NotCacheable as reason:
            self.refuse(str(reason))

    # The recording

    def check(self) -> None:
        """NotCacheable: the compilation cannot be replayed."""
        if self.traces != 1 or self.code is None:
            raise NotCacheable(f"it was traced {self.traces} times")
        if self.refusal:
            raise NotCacheable(self.refusal)
        if self.calling is None or not os.path.isdir(self.folder):
            raise NotCacheable("there is no graph to compile in it")

    def recording(
        self, locals_: Mapping[str, Any], identity: str, meta: dict[str, Any]
    ) -> Recording:
        """The recording of the compilation, for a call with these locals. NotCacheable:
        its code refers to objects of this process."""
        assert self.code is not None
        assert self.calling is not None
        recipes = code_globals.global_recipes(
            self.code, self.function.__globals__, self.names_before
        )
        (graph,) = (
            name for name, recipe in recipes.items() if recipe == code_globals.GRAPH
        )
        owner = self.function.__code__.co_varnames[0]
        paths = self._parameter_paths()
        shortened = parameter_fetch.shorten(
            self.code, graph, owner, self.calling.arguments, paths
        )
        identities = map(self._source, dict.fromkeys(self._guarded.identities))
        return Recording(
            identity=identity,
            sources=self.sources,
            calling=self.calling,
            kernels=self.kernels,
            meta=meta | {"graph": self.readable},
            code=self.code if shortened is None else shortened,
            globals=recipes,
            constants=self._constants(locals_),
            types=self._types(locals_),
            identities=[
                source
                for source in identities
                if source.place is not None and not is_private(source.text)
            ],
            fetched=None if shortened is None else sorted(paths.items()),
        )

    def _parameter_paths(self) -> dict[int, Path]:
        """For each argument of the graph that the module holds: its number and its
        path."""
        found: dict[int, Path] = {}
        for number, name in self.expressions.items():
            place = self._source(name).place
            if (
                place is not None
                and (place.root, place.asks) == ("L", "")
                and all(isinstance(key, str) for _, key in place.path)
                and isinstance(look_up(self.module, place.path), torch.Tensor)
            ):
                found[number] = place.path
        return found

    def _source(self, name: str) -> Source:
        return Source.parse(name, self.function)

    def _constants(self, locals_: Mapping[str, Any]) -> list[tuple[Source, Any]]:
        """The attributes, globals and arguments that the trace depends on, with their
        values. NotCacheable: another process cannot compare one of them."""
        assert self.calling is not None
        found: dict[str, tuple[Source, Any]] = {}

        def add(name: str) -> bool:
            if name in found or is_private(name):
                return True
            source = self._source(name)
            try:
                value = source.value(self.function, locals_)
            except Exception:  # noqa: BLE001 - only Dynamo can read this source
                return False
            if type(value) is set:  # a copy that later changes do not reach
                return add(f"frozenset({name})")
            if is_plain(value):
                found[name] = (source, value)
            return name in found

        for name in (*self._guarded.values, *self.calling.guards_by_source):
            if not add(name):
                raise NotCacheable(f"the trace depends on {name}, which has no name")
        for name in self._tensors_of_calls():
            add(f"{name}.requires_grad")
        for name in self._guarded.identities:
            add(name)
            add(f"identity({name})")
        return list(found.values())

    def _tensors_of_calls(self) -> list[str]:
        """The names of tensors that are arguments or in arguments."""
        names = dict.fromkeys(self._guarded.tensors)
        return [name for name in names if self._source(name).place is None]

    def _types(self, locals_: Mapping[str, Any]) -> list[tuple[Source, Any]]:
        """The types that the trace depends on, by their names. The entry's key has the
        module's own."""
        names = dict.fromkeys(self._guarded.types)
        names.pop(f"L['{self.function.__code__.co_varnames[0]}']", None)
        found = []
        for name in names:
            source = self._source(f"type({name})")
            with contextlib.suppress(Exception):  # only Dynamo can read this source
                kind = source.value(self.function, locals_)
                found.append((source, identity(kind)))
        return found


def _source_hashes(traced: list[types.CodeType]) -> dict[str, str]:
    """Hashes of the files that a trace went through, without PyTorch's and Anabranch's
    own."""
    names = {code.co_filename for code in traced}
    return {
        name: file_hash(name)
        for name in sorted(names)
        if not name.startswith(_HIDDEN) and os.path.isfile(name)
    }
