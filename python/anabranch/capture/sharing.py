"""Watches calls whose arguments share memory with an argument that the graph writes.

A trace holds only for arguments that share memory as those of the trace did.
AOTAutograd orders writes and reads by it, and cuts views out of a common base at the
offsets of that call. Neither its guards nor Dynamo's compare this, so this module looks
at each call of a graph that writes in place.

PyTorch runs a call whose arguments share memory in another way, and every call that
writes to a tensor whose own elements share memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch._guards import TracingContext

from .. import _C
from ..describe.symbols import hint
from ..describe.views import overlaps
from ..errors import CompileError
from ..report import record_eager
from . import constants

Call = Callable[..., Any]


def watch(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compile_: Callable[[], Call],
    explain: bool,
) -> Call:
    """The compiled function of a Dynamo graph that writes in place, which checks at
    each call how its arguments share memory.

    `compile_` traces and compiles the graph. If AOTAutograd raises an error and
    arguments share memory, PyTorch runs the graph; any other error reaches the caller.
    """

    def eager(reason: str) -> Call:
        record_eager("graph", reason, explain)
        return module.forward

    state = [*module.parameters(), *module.buffers()]
    values = [*state, *example_inputs]
    places = _placeholders(module)
    try:
        compiled = compile_()
    except (AssertionError, RuntimeError) as error:
        if isinstance(error, CompileError) or not suspicious(example_inputs):
            raise
        return eager(f"arguments that it writes share memory: {error}")
    written = _written(len(values))
    maybe_written = range(len(values)) if written is None else written
    if any(overlaps_itself(values[number]) for number in maybe_written):
        return eager("it writes to a tensor whose elements share memory")
    if written is None:
        return _SameSharing(module, compiled, example_inputs, explain)
    if not written or sum(isinstance(v, torch.Tensor) for v in values) < 2:
        return compiled
    left = _still_passed(places, set(_placeholders(module)), len(state))
    return _Apart(module, compiled, state, [left.index(i) for i in written], explain)


def _placeholders(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return list(module.graph.find_nodes(op="placeholder"))


def _still_passed(
    before: list[torch.fx.Node], now: set[torch.fx.Node], state: int
) -> list[int]:
    """The positions, behind the module's own tensors, of the arguments that calls still
    pass: frozen weights have become attributes of the module."""
    arguments = (state + i for i, place in enumerate(before) if place in now)
    return [*range(state), *arguments]


class _Watched:
    """A compiled graph, and the original graph for calls that the trace does not cover."""

    def __init__(
        self, module: torch.fx.GraphModule, compiled: Call, explain: bool
    ) -> None:
        self.module = module
        self.compiled = compiled
        self.explain = explain
        self.told = False

    def run_eagerly(self, arguments: Sequence[Any]) -> Any:
        if not self.told:
            self.told = True
            reason = "arguments share memory in another way than in the trace"
            record_eager("graph", f"{reason}, for such calls", self.explain)
        return constants.run(self.module, arguments)


class _Apart(_Watched):
    """For a trace in which no argument shared memory with one that is written."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        compiled: Call,
        state: list[torch.Tensor],
        written: list[int],
        explain: bool,
    ) -> None:
        super().__init__(module, compiled, explain)
        self.state = state
        self.written = written
        # The artefact of the graph, if PyTorch saves it, compares memory by itself.
        self.serialize = getattr(compiled, "serialize", None)

    def __call__(self, *arguments: Any) -> Any:
        values = (*self.state, *arguments) if self.state else arguments
        if _C.share_memory(values, self.written):
            return self.run_eagerly(arguments)
        return self.compiled(*arguments)


class _SameSharing(_Watched):
    """For a trace in which arguments shared memory: AOTAutograd made them views of a
    common base."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        compiled: Call,
        example_inputs: Sequence[Any],
        explain: bool,
    ) -> None:
        super().__init__(module, compiled, explain)
        # The arguments of the trace have no memory, so the first call shows how they
        # share it.
        self.traced = _offsets(example_inputs)
        self.bases: list[Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        found = _bases(arguments)
        if _offsets(arguments) != self.traced or self.bases not in (None, found):
            return self.run_eagerly(arguments)
        self.bases = found
        return self.compiled(*arguments)


def _written(count: int) -> list[int] | None:
    """The positions of the arguments that the graph writes to, among `count`. None:
    AOTAutograd replaced arguments that share memory by their base, or does not say."""
    context = TracingContext.try_get()
    about = context.fw_metadata if context else None
    if about is None or len(about.input_info) != count:
        return None
    return [i for i, info in enumerate(about.input_info) if info.mutates_data]


def _offsets(values: Sequence[Any]) -> list[tuple[int, int, int]]:
    """For each tensor that shares its storage: its position, the position of the first
    tensor in that storage, and its offset."""
    rows: dict[int, list[tuple[int, int]]] = {}
    for number, value in enumerate(values):
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            row = (number, hint(value.storage_offset()))
            rows.setdefault(value.untyped_storage()._cdata, []).append(row)
    return [
        (number, group[0][0], offset)
        for group in rows.values()
        for number, offset in group
        if len(group) > 1
    ]


def _bases(values: Sequence[Any]) -> list[Any]:
    """The facts that AOTAutograd makes the common base of tensors in one storage from."""
    found = []
    for number, _, _ in _offsets(values):
        value = values[number]
        base = value._base
        layout = None
        if base is not None:
            layout = (base.shape, base.stride(), base.storage_offset())
        found.append((value.untyped_storage().nbytes(), layout))
    return found


def suspicious(values: Sequence[Any]) -> bool:
    """Whether values share memory, or elements of one value do."""
    return bool(_offsets(values)) or any(map(overlaps_itself, values))


def overlaps_itself(value: Any) -> bool:
    """Whether elements of a traced tensor share memory, at the sizes of the trace."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return False
    shape = [hint(size) for size in value.shape]
    return 0 not in shape and overlaps(shape, [hint(s) for s in value.stride()])
