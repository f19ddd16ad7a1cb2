"""A process that compiles thousands of graphs."""

from __future__ import annotations

import gc

import torch
from torch._decomp.decompositions_for_rng import PhiloxStateTracker
from torch._dynamo import utils
from torch._functorch import config
from torch._logging._internal import trace_log

# Each compilation copies these settings of PyTorch into its record of times.
RECORDED_SETTINGS = (
    "_get_dynamo_config_for_logging",
    "_scrubbed_inductor_config_for_logging",
    "_compiler_config_for_logging",
    "_functorch_config_for_logging",
)


def spare() -> None:
    """Leaves out what a compilation costs and no test looks at: a third of a small
    graph's time. Dynamo flushes the processor's caches to log how long the new guards
    take, and records its settings. AOTAutograd makes six tensors for the states of
    random numbers, which only `functionalize_rng_ops` uses. pytest hands its handlers to
    loggers that do not propagate, for which PyTorch then renders each graph and stack."""
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0
    for name in RECORDED_SETTINGS:
        if hasattr(utils, name):
            setattr(utils, name, lambda *_: None)
    assert not config.functionalize_rng_ops
    PhiloxStateTracker.reset()
    PhiloxStateTracker.reset = classmethod(lambda _: None)  # type: ignore[assignment]
    trace_log.propagate = True
    trace_log.handlers.clear()
    _collect_seldom()


def _collect_seldom() -> None:
    """The collector leaves out the objects of the imported modules. It looks at old objects,
    such as PyTorch's caches, six times less often than it does by default."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(2000, 10, 20)
