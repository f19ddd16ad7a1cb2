"""A process that compiles thousands of graphs."""

from __future__ import annotations

import gc

import torch


def spare() -> None:
    """Leaves out what a compilation costs and no test looks at: a fifth of a small
    graph's time. Dynamo flushes the processor's caches to log how long the new guards
    take, and the collector visits every object of the imported modules."""
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0
    gc.collect()
    gc.freeze()
