"""Compiles a graph of vLLM, and logs what was compiled and what was not."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch.fx

import anabranch

from . import saved

_log = logging.getLogger("vllm.anabranch")


def compile_graph(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The backend that vLLM's setting names. The options are torch.compile's.

    vLLM's operators never call the model, so its weights are packed once and watched."""
    before = dataclasses.replace(anabranch.counters)
    chosen = {"watch": "always", **(options or {})}
    calls = sum(
        node.op.startswith("call_")
        for part in module.modules()
        if isinstance(part, torch.fx.GraphModule)
        for node in part.graph.nodes
    )
    _log.info("Anabranch: compiles a graph of %s", _counted(calls, "operator"))
    begin = time.monotonic()
    compiled = anabranch.anabranch(module, example_inputs, options=chosen)
    line = summary(before, anabranch.counters, anabranch.last_report() or {})
    _log.info("%s (%.1f s)", line, time.monotonic() - begin)
    return saved.as_vllm_saves_it(compiled)


def summary(before: Any, after: Any, report: Mapping[str, Any]) -> str:
    """One line on the compilations between two states of the counters."""
    grown = {
        field.name: getattr(after, field.name) - getattr(before, field.name)
        for field in dataclasses.fields(after)
    }
    if reason := report.get("eager"):
        return f"Anabranch: PyTorch runs the whole graph: {reason}"
    text = (
        f"Anabranch: {_counted(grown['graphs'], 'program')}"
        f" ({grown['cache_hits'] or 'none'} from the cache),"
        f" {_counted(grown['launches'], 'kernel launch', 'es')} and"
        f" {_counted(grown['fallback_calls'], 'call')} of operators without a kernel"
    )
    if outside := report.get("outside"):
        return f"{text}; the graph is cut at {', '.join(sorted(set(outside)))}"
    names = sorted({fallback["op"] for fallback in report.get("fallbacks", [])})
    return f"{text}: {', '.join(names)}" if names else text


def _counted(count: int, noun: str, ending: str = "s") -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{ending}"
