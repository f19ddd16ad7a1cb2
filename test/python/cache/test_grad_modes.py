"""cache_compile leaves the mode of gradients as it was."""

from __future__ import annotations

import pytest
import torch

import anabranch


class SetsMode(torch.nn.Module):
    def method(self, x, mode: bool):
        torch.set_grad_enabled(mode)
        return x + 1


@pytest.mark.parametrize("mode", [False, True])
@pytest.mark.parametrize("outside", [False, True])
def test_every_call_leaves_the_mode_as_it_was(tmp_path, mode, outside) -> None:
    """The call that compiles, the first of a replay, and those after them."""
    x = torch.ones(2)
    for _ in range(2):
        cached = anabranch.cache_compile(SetsMode().method, cache_dir=str(tmp_path))
        for _ in range(3):
            with torch.set_grad_enabled(outside):
                torch.testing.assert_close(cached(x, mode), x + 1)
                assert torch.is_grad_enabled() == outside
        torch._dynamo.reset()
