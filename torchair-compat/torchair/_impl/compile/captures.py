"""The visible rules of captures, for graphs of the capture modes.

One program serves every size on this host, so nothing is captured. A script can still
see captures, and this module keeps what it can see:

- There is one capture for each key: the values of symbolic inputs, and the addresses of
  parameters.
- The same calls make a new capture, up to the same limit, and the same counters change.
- Results lie in the memory of a capture, and its next run overwrites them."""

from __future__ import annotations

import itertools
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch._dynamo.utils import counters

from anabranch.extension import InputSource

from ..device import npu
from ..log import logger
from ..options.config import CompilerConfig, raw

__all__ = ["Captures"]

_aten = torch.ops.aten
_ids = itertools.count(1)

_FAMILY = "npugraph_ex"
_COUNTERS = (
    "captured_graph_",
    "recapture_due_to_mutated_input_change_graph_",
    "recapture_due_to_global_limit_core_change_graph_",
)


class _Capture:
    """One capture: the addresses and the limit of cores that it was made for, and the
    memory of its results."""

    def __init__(self, addresses: list[int], limit: Any) -> None:
        self.id = next(_ids)
        self.addresses = addresses
        self.limit = limit
        self.results: list[torch.Tensor | None] = []
        # the memory of these results, which later calls copy to
        self.inputs: dict[int, torch.Tensor] = {}


class Captures:
    """The captures of one graph, by key."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        sources: Sequence[InputSource],
        config: CompilerConfig,
        number: int,
    ) -> None:
        self.name = f"graph_{number}"
        self.counters = [f"{prefix}{number}" for prefix in _COUNTERS]
        frozen = raw(config, "experimental_config.frozen_parameter")
        nodes = module.graph.find_nodes(op="placeholder")
        values = [node.meta.get("val") for node in nodes]
        self.symbols = [
            n for n, value in enumerate(values) if not isinstance(value, torch.Tensor)
        ]
        self.parameters = [
            n
            for n, source in enumerate(sources)
            if source.kind == "parameter" and not frozen
        ]
        copies = module.graph.find_nodes(op="call_function", target=_aten.copy_.default)
        written = {copy.args[0] for copy in copies}
        self.written = [n for n, node in enumerate(nodes) if node in written]
        self.most = raw(config, "debug.aclgraph.static_capture_size_limit")
        clones = raw(config, "debug.aclgraph.enable_output_clone")
        self.reuses = not (clones or _trains())
        # The inputs of the first call, which the capture reads in all calls.
        self.lent: list[int] = []
        if not raw(config, "debug.aclgraph.clone_input"):
            self.lent = [
                n
                for n, source in enumerate(sources)
                if n not in (*self.symbols, *self.written)
                and source.kind not in ("parameter", "buffer")
            ]
        self.made: dict[tuple[int, ...], _Capture] | None = {}

    def wrap(self, executable: Callable[..., Any]) -> Callable[..., Any]:
        def call(arguments: list[Any]) -> Any:
            capture = self._find(arguments)
            if capture is not None and self.lent:
                _lend(capture, self.lent, arguments)
            if capture is None or not self.reuses:
                return executable(arguments)
            given = {_memory(a) for a in arguments if isinstance(a, torch.Tensor)}
            return _into(capture, executable(arguments), given)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    def _find(self, arguments: Sequence[Any]) -> _Capture | None:
        """The capture for a call, or a new one. None: the limit of captures is reached."""
        if self.made is None:
            return None
        key = tuple(int(arguments[n]) for n in self.symbols)
        key += tuple(arguments[n].data_ptr() for n in self.parameters)
        addresses = [arguments[n].data_ptr() for n in self.written]
        limit = npu.current_stream()._limit
        found = self.made.get(key)
        if found and (found.addresses, found.limit) == (addresses, limit):
            logger.debug(
                "Find captured AclGraph{id: %d} of fx_graph %s with graph key %s. The"
                " current AclGraph no needs to be recaptured.",
                found.id,
                self.name,
                key,
            )
            return found
        if len(self.made) >= self.most:
            self._give_up()
            return None
        return self._make(key, found, addresses, limit)

    def _make(
        self,
        key: tuple[int, ...],
        found: _Capture | None,
        addresses: list[int],
        limit: Any,
    ) -> _Capture:
        assert self.made is not None
        capture = _Capture(addresses, limit)
        which = 0
        if found:
            which = 1 if found.addresses != addresses else 2
            capture.results = found.results
            capture.inputs = found.inputs
            text = "The AclGraph{id: %d} of fx_graph %s with key %s needs to be recaptured."
            logger.debug(text, found.id, self.name, key)
        else:
            text = (
                "No find captured AclGraph{id: %d} of fx_graph %s with graph key {%s}, and"
                " start to capture it."
            )
            logger.debug(text, capture.id, self.name, key)
        self.made[key] = capture
        counters[_FAMILY][self.counters[which]] += 1
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug(
                "Success to capture fx_graph %s for graph key{%s}.", self.name, key
            )
            counts = [counters[_FAMILY].get(name, 0) for name in self.counters]
            logger.debug(
                "For graph %s : the count of captures is %d, and count of recaptures"
                " caused by mutated inputs changed is %d, by changed limits of cores %d",
                self.name,
                *counts,
            )
        return capture

    def _give_up(self) -> None:
        self.made = None
        for name in self.counters:
            counters[_FAMILY].pop(name, None)
        warnings.warn(
            "The static_capture_size_limit reached when capturing fx_graph"
            f" {self.name}, we will fall back to eager for all subsequent executions."
            " On this host the compiled program goes on, with results in memory of"
            " their own.",
            stacklevel=2,
        )


def _lend(capture: _Capture, lent: Sequence[int], arguments: list[Any]) -> None:
    """Replaces these inputs by those of the first call, and copies the values."""
    for place in lent:
        given = arguments[place]
        if not isinstance(given, torch.Tensor):
            continue
        if given.is_inference() and not torch.is_inference_mode_enabled():
            continue  # PyTorch lets nobody write to the input
        kept = capture.inputs.setdefault(place, given)
        if kept is not given and kept.data_ptr() != given.data_ptr():
            with torch.no_grad():
                kept.copy_(given)
        arguments[place] = kept


def _trains() -> bool:
    """Whether a backward graph will read results of this graph."""
    context = torch._guards.TracingContext.try_get()
    about = context.fw_metadata if context else None
    return about is None or bool(about.traced_tangents)


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _into(capture: _Capture, results: Any, given: set[int]) -> list[Any]:
    """The results, copied to the capture's memory. A result that is an input stays
    itself."""
    if len(capture.results) != len(results):
        capture.results = [None] * len(results)
    found: dict[int, Any] = {}  # one result may have several places
    for place, result in enumerate(results):
        if id(result) not in found:
            found[id(result)] = _kept(capture.results, place, result, given)
    return [found[id(result)] for result in results]


def _kept(
    memory: list[torch.Tensor | None], place: int, result: Any, given: set[int]
) -> Any:
    if not isinstance(result, torch.Tensor) or _memory(result) in given:
        return result
    kept = memory[place]
    if kept is None or not _takes(kept, result):
        memory[place] = kept = result
    else:
        kept.copy_(result)
    return kept.detach()


def _takes(kept: torch.Tensor, result: torch.Tensor) -> bool:
    """Whether the result fits into the memory of the previous one."""
    return (
        kept.shape == result.shape
        and kept.stride() == result.stride()
        and kept.dtype == result.dtype
        and 0 not in kept.stride()
        and (torch.is_inference_mode_enabled() or not kept.is_inference())
    )
