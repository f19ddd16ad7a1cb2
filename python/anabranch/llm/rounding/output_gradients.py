"""How much what a model says depends on the results of its layers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from .layer_inputs import flat


def squared_gradients(
    model: Any, layers: Iterable[nn.Module], tokens: torch.Tensor
) -> dict[nn.Module, torch.Tensor]:
    """The mean square of the loss's gradient by each output of layers: float32 [outputs].

    tokens  [1, columns]. The loss counts words that the model itself draws after each
            of them, so these are the diagonal of Fisher's information

    A layer whose outputs change nothing has no entry. No layer has one for a model that
    was made in inference mode: PyTorch computes no gradients there.
    """
    found: dict[nn.Module, torch.Tensor] = {}
    starts: list[torch.Tensor] = []

    def begin(_: nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
        # Gradients go no further, and parameters get none.
        starts.append(output.detach().requires_grad_())
        return starts[-1]

    def note(layer: nn.Module) -> Callable[[torch.Tensor], None]:
        def of(gradient: torch.Tensor) -> None:
            squares = flat(gradient).square().sum(0) / tokens.numel()
            found[layer] = found[layer] + squares if layer in found else squares

        return of

    def follow(layer: nn.Module, _: Any, output: torch.Tensor) -> None:
        if output.requires_grad:
            output.register_hook(note(layer))

    if any(value.is_inference() for value in (*model.parameters(), *model.buffers())):
        return found
    with contextlib.ExitStack() as stack:
        embedding = model.get_input_embeddings()
        stack.callback(embedding.register_forward_hook(begin).remove)
        for layer in layers:
            stack.callback(layer.register_forward_hook(follow).remove)
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        # Tensors that the caller made in inference mode could not be saved.
        result = model(tokens.clone(), use_cache=False)
        logits = flat(getattr(result, "logits", result))
        loss = nn.functional.cross_entropy(logits, _drawn(logits), reduction="sum")
        torch.autograd.grad(loss, starts, allow_unused=True)
    return found


def _drawn(logits: torch.Tensor) -> torch.Tensor:
    """A word for each row of logits, the same ones in all processes."""
    generator = torch.Generator().manual_seed(0)
    likely = logits.detach().softmax(-1)
    return torch.multinomial(likely, 1, generator=generator).squeeze(1)
