"""Functions that give the same compiled as in eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import torchair


def both(function: Callable[..., Any], *arguments: Any, **near: float) -> Any:
    """Eager results, which compiled ones equal, as do the tensors written to. `near` has
    the tolerances of torch.testing.assert_close."""
    copies = [t.clone() if isinstance(t, torch.Tensor) else t for t in arguments]
    found = function(*arguments)
    torch._dynamo.reset()
    run = torch.compile(function, backend=torchair.get_npu_backend(), fullgraph=True)
    torch.testing.assert_close(run(*copies), found, **near)
    torch.testing.assert_close(copies, [*arguments], **near)
    return found
