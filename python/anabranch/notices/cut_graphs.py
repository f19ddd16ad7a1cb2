"""Times the first calls of a graph that is cut into programs, with PyTorch's operators
between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch.fx

from .first_calls import CALLS, TORCH_SHARE, tell_operators, times


def watch(module: torch.fx.GraphModule, report: dict[str, Any], tells: bool) -> None:
    """Notes in `report`, the report on a graph that `module` runs in parts, which share
    of the first calls PyTorch takes; with `tells`, says so where it is much."""
    forward: Callable[..., Any] = module.forward
    calls = 0
    whole = own = 0.0

    def timed(*values: Any) -> Any:
        nonlocal calls, whole, own
        begin, own_before = time.perf_counter(), times.own
        results = forward(*values)
        calls += 1
        if calls > 1:  # the first call touches cold memory
            whole += time.perf_counter() - begin
            own += times.own - own_before
        if calls == CALLS:
            module.__dict__.pop("forward", None)
            report["torch_share"] = share = 1 - own / whole
            if tells and share > TORCH_SHARE:
                outside = {(operator, ""): 0.0 for operator in report["outside"]}
                tell_operators(report["name"], share, outside)
        return results

    module.__dict__["forward"] = timed
