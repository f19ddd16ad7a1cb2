"""torch.npu.NPUGraph: runs captured operators again on the same memory.

During a capture, operators run as always, and are recorded with the tensors that they
read and make. A replay runs them again, in order. It reads operands at their places in
memory, and writes each result over the one before."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["NPUGraph", "graph", "is_current_stream_capturing"]

_capturing: list[NPUGraph] = []


class NPUGraph:
    """Operators that `torch.npu.graph` captured."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._calls: list[tuple[Any, Any, Any, Any]] = []
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
        self._mode = _Recorder(self._calls)
        self._mode.__enter__()
        _capturing.append(self)

    def capture_end(self) -> None:
        if self._mode is None:
            raise RuntimeError("NPUGraph: capture_end() without capture_begin()")
        self._mode.__exit__(None, None, None)
        self._mode, self._captured = None, True
        _capturing.remove(self)

    def replay(self) -> None:
        """Runs the operators again. RuntimeError: nothing was captured."""
        if not self._captured:
            raise RuntimeError("NPUGraph: replay() before a capture")
        with torch.no_grad():
            for function, args, kwargs, made in self._calls:
                _write_over(made, function(*args, **kwargs))

    def reset(self) -> None:
        self._calls.clear()
        self._captured = False

    def pool(self) -> Any:
        """The handle that the graph was captured with. It has no memory of its own."""
        return self._pool or (0, 0)

    def update(self, cpu_update_input: Any) -> None:
        """Always raises NotImplementedError: arguments that are no tensors keep their
        values."""
        raise NotImplementedError(
            "torch.npu.NPUGraph.update() changes arguments of a captured operator that"
            " are no tensors, which this host can't: capture the graph again"
        )


@contextlib.contextmanager
def graph(
    npu_graph: NPUGraph,
    pool: Any = None,
    stream: Any = None,
    capture_error_mode: str = "global",
    **_: Any,
) -> Iterator[None]:
    """Captures the operators inside the block into the graph."""
    npu_graph.capture_begin(pool, capture_error_mode)
    try:
        yield
    finally:
        npu_graph.capture_end()


def is_current_stream_capturing() -> bool:
    return bool(_capturing)


class _Recorder(TorchDispatchMode):
    def __init__(self, calls: list[tuple[Any, Any, Any, Any]]) -> None:
        super().__init__()
        self._calls = calls

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        given = {id(leaf) for leaf in tree_leaves((args, kwargs))}
        mine = [None if id(leaf) in given else leaf for leaf in tree_leaves(result)]
        self._calls.append((func, args, kwargs, mine))
        return result


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
