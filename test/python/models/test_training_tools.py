"""What users put around a compiled model to train it: optimizers, schedulers, weights
that are computed, hooks, and derivatives of functions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from checking import compiled

from anabranch.backend import anabranch as backend

X = torch.linspace(-1, 2, 24).view(3, 8)

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.01, amsgrad=True),
    "Adam, each alone": lambda p: torch.optim.Adam(p, 0.01, foreach=False),
}


def layers() -> torch.nn.Sequential:
    torch.manual_seed(0)
    linear, norm = torch.nn.Linear(8, 6), torch.nn.LayerNorm(6)
    return torch.nn.Sequential(linear, torch.nn.GELU(), norm, torch.nn.Linear(6, 2))


def trained(name: str, is_compiled: bool) -> list[torch.Tensor]:
    """The parameters after four steps, whose rate changes."""
    model = layers()
    optimizer = OPTIMIZERS[name](model.parameters())
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    call, step = (
        (torch.compile(part, backend=backend) if is_compiled else part)
        for part in (model, optimizer.step)
    )
    for rows in (3, 3, 2, 1):
        optimizer.zero_grad()
        call(X[:rows]).square().mean().backward()
        step()
        scheduler.step()
    return [parameter.detach() for parameter in model.parameters()]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_compiled_steps_of_optimizers(name: str) -> None:
    close = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(trained(name, True), trained(name, False), **close)


@pytest.mark.parametrize(
    "wrap",
    [
        torch.nn.utils.parametrizations.weight_norm,
        torch.nn.utils.parametrizations.spectral_norm,
        torch.nn.utils.spectral_norm,
    ],
)
def test_weights_that_are_computed(wrap: Callable[[Any], torch.nn.Module]) -> None:
    torch.manual_seed(0)
    model = wrap(torch.nn.Linear(8, 6))
    other = copy.deepcopy(model)
    run = compiled(model)
    for mode in (True, True, False):  # training updates the vectors of spectral_norm
        model.train(mode)
        other.train(mode)
        torch.testing.assert_close(run(X), other(X))


def test_tensors_saved_elsewhere_and_hooks_of_gradients() -> None:
    def gradients(is_compiled: bool) -> tuple[list[Any], int]:
        model, seen = layers(), []
        model[0].register_full_backward_hook(lambda *_: seen.append(0))
        model[0].weight.register_hook(lambda grad: grad * 3)
        model[3].weight.register_post_accumulate_grad_hook(seen.append)
        call = compiled(model) if is_compiled else model
        x = X.clone().requires_grad_()
        with torch.autograd.graph.save_on_cpu():
            result = call(x)
        result.sum().backward()
        return [x.grad, *(p.grad for p in model.parameters())], len(seen)

    torch.testing.assert_close(gradients(True), gradients(False))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.func.jacrev(lambda y: (y.sin() * y.sum(), y.cos()))(x),
        lambda x: torch.func.hessian(lambda y: y.sin().sum() ** 2)(x),
        lambda x: torch.func.jvp(torch.sin, (x,), (x + 1,)),
        lambda x: torch.vmap(torch.func.jacfwd(torch.sin))(x.view(2, 4)),
    ],
)
def test_derivatives_of_functions(function: Callable[..., Any]) -> None:
    torch.testing.assert_close(compiled(function)(X[0]), function(X[0]))
