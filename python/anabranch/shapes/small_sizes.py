"""Runs sizes of zero and one where a trace took a symbolic size for two or more.

Dynamo's guards have such a graph compiled again for these sizes. A caller that has
dropped the guards, as vLLM does, calls it nevertheless. A graph that computes them like
any other size (describe/small_sizes.py) just runs. For any other graph a second program
is made when such a call comes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import torch
import torch.fx

from ..describe.symbol_table import SMALLEST_SYMBOLIC

Call = Callable[..., Any]
Backend = Callable[[torch.fx.GraphModule, Sequence[Any]], Call]

# The names of symbols that graphs of this compilation take for two or more.
_taken: ContextVar[set[str] | None] = ContextVar("anabranch_small_sizes", default=None)


@contextlib.contextmanager
def noting() -> Iterator[set[str]]:
    """The set to which `note` adds inside the block."""
    names: set[str] = set()
    token = _taken.set(names)
    try:
        yield names
    finally:
        _taken.reset(token)


def note(symbols: Sequence[dict[str, Any]]) -> None:
    """Notes the symbols of a graph that does not serve zero and one."""
    if (names := _taken.get()) is not None:
        names |= {s["name"] for s in symbols if s.get("min") == SMALLEST_SYMBOLIC}


def are_noted() -> bool:
    """Whether the Dynamo graph of this compilation will be compiled again at need."""
    return bool(_taken.get())


def serve(
    call: Call, module: torch.fx.GraphModule, names: set[str], backend: Backend
) -> Call:
    """`call`, a compiled Dynamo graph, for all sizes of the symbols `names`. `backend`
    compiles `module` again."""
    places = list(_places(module, names))
    return _SmallSizes(call, module, places, backend) if places else call


class _SmallSizes:
    """A compiled graph, and a second one for calls with small sizes."""

    def __init__(
        self,
        call: Call,
        module: torch.fx.GraphModule,
        places: list[tuple[int, int | None]],
        backend: Backend,
    ) -> None:
        self.call = call
        self.places = places
        # Compiles at its first call. Its guards are its own, so nobody drops them.
        self.small = torch.compile(module, backend=backend)
        # PyTorch saves a graph by this method, and other processes load the result.
        self.serialize = getattr(call, "serialize", None)

    def __call__(self, *arguments: Any) -> Any:
        for position, dim in self.places:
            value = arguments[position]
            if (value if dim is None else value.shape[dim]) < SMALLEST_SYMBOLIC:
                return self.small(*arguments)
        return self.call(*arguments)


def _places(
    module: torch.fx.GraphModule, names: set[str]
) -> Iterator[tuple[int, int | None]]:
    """For each symbol, an argument that equals it or has it as a size."""
    left = set(names)
    for position, node in enumerate(module.graph.find_nodes(op="placeholder")):
        value = node.meta.get("example_value")
        sizes = value.shape if isinstance(value, torch.Tensor) else [value]
        for dim, size in enumerate(sizes):
            if isinstance(size, torch.SymInt) and str(size.node.expr) in left:
                left.discard(str(size.node.expr))
                yield position, dim if isinstance(value, torch.Tensor) else None
