"""A process that compiles thousands of graphs."""

from __future__ import annotations

import gc

import torch
from torch._logging._internal import trace_log


def spare() -> None:
    """Leaves out what a compilation costs and no test looks at: a fifth of a small
    graph's time. Dynamo flushes the processor's caches to log how long the new guards
    take, and the collector visits every object of the imported modules. pytest hands its
    handlers to loggers that do not propagate, for which PyTorch then renders each graph
    and stack."""
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0
    trace_log.propagate = True
    trace_log.handlers.clear()
    gc.collect()
    gc.freeze()
