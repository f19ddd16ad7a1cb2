"""Makes steps of fused optimizers visible: they write parameters without raising their
versions."""

from __future__ import annotations

import functools
from typing import Any

import torch


@functools.cache
def count_fused_steps() -> None:
    """From now on, a step of a fused optimizer raises the versions of the parameters that it writes.
    So a program with frozen copies sees the write."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(_raise_versions)


def _raise_versions(optimizer: Any, _args: Any, _kwargs: Any) -> None:
    for group in optimizer.param_groups:
        if group.get("fused"):
            written = [p for p in group["params"] if not p.is_inference()]
            torch.autograd.graph.increment_version(written)
