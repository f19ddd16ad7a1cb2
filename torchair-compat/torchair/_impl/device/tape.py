"""torch.npu.NPUGraph: runs captured operators again on the same memory.

During a capture, operators run as always, and are recorded with the tensors that they
read and make. A replay runs them again, in order. It reads operands at their places in
memory, and writes each result over the one before.

Arguments that are no tensors keep the values of the capture, unless somebody changes
them: `NPUGraph.update` changes those of attentions by name, and
`graph_task_update_begin` records the operators of a group anew."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    _pop_mode_temporarily,
)
from torch.utils._pytree import tree_leaves

from ..errors import warn_once

__all__ = [
    "NPUGraph",
    "graph",
    "graph_task_group_begin",
    "graph_task_group_end",
    "graph_task_update_begin",
    "graph_task_update_end",
    "is_current_stream_capturing",
    "is_recording",
    "recorded_as_one",
    "recorded_whole",
]

_capturing: list[NPUGraph] = []
_updating: list[tuple[TaskGroup, _Recorder]] = []
# Operators whose arguments `update` may change.
_whole: set[Any] = set()


@dataclasses.dataclass
class _Call:
    """An operator with its arguments. `made` are the tensors of the capture that hold
    its results; None stands for a result that is an argument."""

    operator: Any
    function: Callable[..., Any]
    args: list[Any]
    kwargs: dict[str, Any]
    made: list[Any]

    def run(self) -> None:
        _write_over(self.made, self.function(*self.args, **self.kwargs))

    def event(self, number: int) -> dict[str, Any]:
        """The call as an event of a trace, at its place in the order."""
        values = {str(place): value for place, value in enumerate(self.args)}
        values |= self.kwargs
        return {
            "name": str(self.operator),
            "ph": "X",
            "ts": number,
            "dur": 1,
            "pid": "NPUGraph",
            "tid": 0,
            "args": {
                "Task Type": "KERNEL",
                "Stream Id": 0,
                "TaskId": number,
                "Operands": {name: _text(v) for name, v in values.items()},
                "Results": [_text(made) for made in self.made],
            },
        }

    def change(self, values: dict[str, Any]) -> None:
        """Changes arguments by name; names that the operator does not have stay."""
        arguments = self.operator._schema.arguments
        names = [argument.name for argument in arguments]
        for name, value in values.items():
            if name not in names:
                continue
            place = names.index(name)
            if not arguments[place].kwarg_only and place < len(self.args):
                self.args[place] = value
            else:
                self.kwargs[name] = value


class TaskGroup:
    """Calls that may be recorded anew, between two places of a captured graph."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []


class NPUGraph:
    """Operators that `torch.npu.graph` captured."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.auto_dispatch_capture = False
        self._entries: list[_Call | TaskGroup] = []
        self._mode: _Recorder | None = None
        self._captured = False
        self._pool: Any = None

    def capture_begin(
        self, pool: Any = None, capture_error_mode: str = "global"
    ) -> None:
        """Captures the operators of this thread from now on. RuntimeError: they are
        being captured already."""
        if self._mode is not None:
            raise RuntimeError("NPUGraph: capture_begin() during a capture")
        self.reset()
        self._pool = pool
        self._mode = _Recorder(self._entries)
        self._mode.__enter__()
        _capturing.append(self)

    def capture_end(self) -> None:
        """Ends the capture. RuntimeError: there is none, or a group of tasks is open."""
        if self._mode is None:
            raise RuntimeError("NPUGraph: capture_end() without capture_begin()")
        is_open = self._mode.group is not None
        self._leave(captured=not is_open)
        if is_open:
            raise RuntimeError("NPUGraph: capture_end() inside a group of tasks")

    def _leave(self, captured: bool) -> None:
        assert self._mode is not None
        self._mode.__exit__(None, None, None)
        self._mode, self._captured = None, captured
        _capturing.remove(self)

    def replay(self) -> None:
        """Runs the operators again. RuntimeError: nothing was captured."""
        if not self._captured:
            raise RuntimeError("NPUGraph: replay() before a capture")
        with torch.no_grad():
            for call in self._calls():
                call.run()

    def reset(self) -> None:
        self._entries.clear()
        self._captured = False

    def pool(self) -> Any:
        """The handle that the graph was captured with. It has no memory of its own."""
        return self._pool or (0, 0)

    def update(self, cpu_update_input: Sequence[dict[str, Any]]) -> None:
        """Changes arguments of the captured attentions, by name, for later replays.

        cpu_update_input  a dict of new values for each attention, in the order of the
                          capture, or one for all of them. Names that an attention does
                          not have change nothing; a name that none has is warned of

        RuntimeError: the graph was captured without `auto_dispatch_capture=True`, or
        there is another number of attentions.
        """
        if not self.auto_dispatch_capture:
            raise RuntimeError(
                "NPUGraph.update: capture the graph with auto_dispatch_capture=True"
            )
        calls = [call for call in self._calls() if call.operator in _whole]
        given = list(cpu_update_input)
        if len(given) == 1:
            given *= len(calls)
        if len(given) != len(calls):
            raise RuntimeError(
                f"NPUGraph.update: cpu_update_input must have 1 or {len(calls)}"
                f" elements, as the graph has attentions, got {len(given)}"
            )
        known = {a.name for call in calls for a in call.operator._schema.arguments}
        for name in sorted({name for values in given for name in values} - known):
            warn_once(f"NPUGraph.update: no captured attention has an argument {name}")
        for call, values in zip(calls, given):
            call.change(values)

    def enable_debug_mode(self) -> None:
        """Does nothing: a graph keeps all that `debug_dump` writes."""

    def debug_dump(self, debug_path: str) -> None:
        """Writes the captured operators as a trace (Trace Event Format, JSON), one after
        another on one stream, with their operands. A second file, `.aligned.json`, is
        the same. Without a capture it writes nothing."""
        if not self._captured:
            return
        events = [call.event(number) for number, call in enumerate(self._calls())]
        root, extension = os.path.splitext(debug_path)
        for path in (debug_path, f"{root}.aligned{extension}"):
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"traceEvents": events}, file, indent=1)

    def super_kernel_optimize(
        self, optimize_options: Any = None, debug_options: Any = None
    ) -> None:
        """Has no effect, and says so."""
        warn_once("NPUGraph.super_kernel_optimize has no effect on this host")

    def _calls(self) -> list[_Call]:
        return [
            call
            for entry in self._entries
            for call in (entry.calls if isinstance(entry, TaskGroup) else [entry])
        ]


@contextlib.contextmanager
def graph(
    npu_graph: NPUGraph,
    pool: Any = None,
    stream: Any = None,
    auto_dispatch_capture: bool = False,
    capture_error_mode: str = "global",
    **_: Any,
) -> Iterator[None]:
    """Captures the operators inside the block into the graph. `auto_dispatch_capture`
    lets `NPUGraph.update` change arguments later."""
    npu_graph.auto_dispatch_capture = auto_dispatch_capture
    npu_graph.capture_begin(pool, capture_error_mode)
    try:
        yield
    except BaseException:
        # The caller needs this error, not one of the capture that it ended.
        if npu_graph._mode is not None:
            npu_graph._leave(captured=False)
        raise
    npu_graph.capture_end()


def is_current_stream_capturing() -> bool:
    return bool(_capturing)


def graph_task_group_begin(stream: Any) -> None:
    """Begins a group of captured operators that may be recorded anew. RuntimeError: no
    graph is being captured, or a group is open."""
    mode = _capturing[-1]._mode if _capturing else None
    if mode is None or mode.group is not None:
        what = "outside a capture" if mode is None else "inside another group"
        raise RuntimeError(f"torch.npu.graph_task_group_begin {what}")
    mode.group = TaskGroup()
    mode.entries.append(mode.group)


def graph_task_group_end(stream: Any) -> TaskGroup:
    """Ends the group, and returns it for graph_task_update_begin. RuntimeError: no group
    is open."""
    mode = _capturing[-1]._mode if _capturing else None
    if mode is None or mode.group is None:
        raise RuntimeError("torch.npu.graph_task_group_end without a group")
    group, mode.group = mode.group, None
    return group


def graph_task_update_begin(stream: Any, handle: TaskGroup) -> None:
    """Records operators up to graph_task_update_end in place of those of the group.
    Operators that write to `out` do not run before the next replay."""
    mode = _Recorder([], runs=False)
    mode.group = TaskGroup()
    _updating.append((handle, mode))
    mode.__enter__()


def graph_task_update_end(stream: Any) -> None:
    """Ends the recording. RuntimeError: there is none, or its operators are not those of
    the group."""
    if not _updating:
        raise RuntimeError(
            "torch.npu.graph_task_update_end without graph_task_update_begin"
        )
    handle, mode = _updating.pop()
    mode.__exit__(None, None, None)
    assert mode.group is not None
    before, now = handle.calls, mode.group.calls
    if [str(call.operator) for call in before] != [str(call.operator) for call in now]:
        raise RuntimeError(
            "torch.npu.graph_task_update_end: the group has the operators"
            f" {[str(call.operator) for call in before]}, the update"
            f" {[str(call.operator) for call in now]}"
        )
    for old, new in zip(before, now):
        new.made = old.made
    handle.calls = now


def recorded_whole(operator: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """`recorded_as_one` for an operator whose arguments `NPUGraph.update` may change."""
    _whole.add(operator)
    return recorded_as_one(operator, function)


def recorded_as_one(operator: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of an operator that PyTorch takes apart: a capture records a call of
    it as one. So a replay also reads the values that decide what the parts do, such as
    lengths in a tensor."""

    def call(*args: Any, **kwargs: Any) -> Any:
        mode = _get_current_dispatch_mode()
        if not isinstance(mode, _Recorder):
            return function(*args, **kwargs)
        with _pop_mode_temporarily():
            return mode.record(operator, function, args, kwargs)

    return call


def is_recording() -> bool:
    """Whether a capture records the operators that this code calls."""
    return isinstance(_get_current_dispatch_mode(), _Recorder)


class _Recorder(TorchDispatchMode):
    """Records calls in `entries`, or in the open group."""

    def __init__(self, entries: list[_Call | TaskGroup], runs: bool = True) -> None:
        super().__init__()
        self.entries = entries
        self.group: TaskGroup | None = None
        self._runs = runs

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self.record(func, func, args, kwargs or {})

    def record(
        self,
        operator: Any,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        if self._runs or "out" not in kwargs:
            result = function(*args, **kwargs)
        else:
            result = kwargs["out"]
        given = {id(leaf) for leaf in tree_leaves((args, kwargs))}
        mine = [None if id(leaf) in given else leaf for leaf in tree_leaves(result)]
        call = _Call(operator, function, list(args), dict(kwargs), mine)
        (self.entries if self.group is None else self.group.calls).append(call)
        return result


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    return str(value)


def _write_over(before: list[Any], now: Any) -> None:
    """Writes a new result over the old one. Views need nothing: their memory was
    written."""
    for old, new in zip(before, tree_leaves(now)):
        if not isinstance(old, torch.Tensor) or old.data_ptr() == new.data_ptr():
            continue
        if old.shape != new.shape:
            raise RuntimeError(
                "NPUGraph: a captured operator makes a tensor of the shape"
                f" {tuple(new.shape)} now, and made one of {tuple(old.shape)} before;"
                " captured sizes must stay"
            )
        old.copy_(new)
