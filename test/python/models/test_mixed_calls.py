"""One process trains and infers in random order, and calls fail in between: no call loses
the gradients of a later one, and none leaves a mode behind."""

from __future__ import annotations

import contextlib
import copy
import functools
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from checking import compiled
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from torch.nn import functional

from anabranch import dynamo_lock
from anabranch.backend import anabranch as backend

aten = torch.ops.aten
STEPS = 30
WORDS, WIDTH = 31, 16


class Attending(nn.Module):
    """A small language model; with `words` to come it computes a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.projections = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, given: torch.Tensor, words: Any = None) -> torch.Tensor:
        x = self.embedding(given)
        heads = self.projections(self.norm(x)).chunk(3, -1)
        q, k, v = (head.unflatten(-1, (2, -1)).transpose(1, 2) for head in heads)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        logits = (x + y.transpose(1, 2).flatten(2)) @ self.embedding.weight.T
        if words is None:
            return logits
        return functional.cross_entropy(logits.flatten(0, 1), words.flatten())


class Growing(nn.Module):
    """A convolution whose batch norm keeps numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())

    def forward(self, given: torch.Tensor, words: Any = None) -> torch.Tensor:
        x = functional.one_hot(given, WORDS).float().unsqueeze(1)
        y = functional.interpolate(self.layers(x), scale_factor=2, mode="bilinear")
        return y if words is None else y.mean() + y.square().mean()


class Process:
    """The models that were compiled, which later calls use again."""

    def __init__(self, seed: int) -> None:
        self.choices = random.Random(seed)
        self.models: list[tuple[nn.Module, Callable[..., Any]]] = []

    def model(self) -> tuple[nn.Module, Callable[..., Any]]:
        if not self.models or self.choices.random() < 0.5:
            kind = self.choices.choice([Attending, Growing])
            model, dynamic = kind(), self.choices.choice([None, True])
            self.models.append((model, compiled(model, dynamic=dynamic)))
        return self.choices.choice(self.models)

    def words(self) -> torch.Tensor:
        shape = self.choices.choice([(2, 5), (3, 7), (3, 5)])
        return torch.randint(0, WORDS, shape)

    def train(self) -> None:
        model, call = self.model()
        reference = copy.deepcopy(model).train()
        words = self.words()
        model.train().zero_grad()
        loss, wanted = call(words, words), reference(words, words)
        assert loss.requires_grad
        torch.testing.assert_close(loss, wanted)
        loss.backward()
        wanted.backward()
        for ours, theirs in zip(model.parameters(), reference.parameters()):
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-4)

    def infer(self) -> None:
        model, call = self.model()
        model.eval()
        words = self.words()
        modes = (torch.no_grad, torch.inference_mode, contextlib.nullcontext)
        with self.choices.choice(modes)():
            found, wanted = call(words), model(words)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        assert found.requires_grad == wanted.requires_grad

    def infer_in_a_thread(self) -> None:
        errors: list[BaseException] = []

        def run() -> None:
            try:
                self.infer()
            except BaseException as error:  # noqa: BLE001 - a thread's errors are lost
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert not errors

    def refuse(self) -> None:
        with pytest.raises(RuntimeError):
            compiled(lambda x: functional.celu(x, 0.0))(torch.ones(3))

    def fail_without_gradients(self) -> None:
        def function(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                y = x * 2
                torch._dynamo.graph_break()
                return y[index]

        x = torch.ones(3, requires_grad=True)
        with pytest.raises(IndexError):
            compiled(function)(x, torch.tensor([9]))

    def fail_in_the_backend(self) -> None:
        """Also where a user interrupts a trace."""
        kind = self.choices.choice([ValueError, KeyboardInterrupt])

        def parts(*_: Any) -> None:
            raise kind("while it is traced")

        failing = dict.fromkeys(
            (aten.native_layer_norm.default, aten.convolution.default), parts
        )
        call = torch.compile(
            self.choices.choice([Attending, Growing])(),
            backend=functools.partial(backend, decompositions=failing),
        )
        words = self.words()
        with pytest.raises((BackendCompilerFailed, KeyboardInterrupt)):
            call(words, self.choices.choice([None, words]))

    def change_the_mode(self) -> None:
        """A graph sets the mode of gradients, and ends in it."""
        mode = self.choices.choice([False, True])

        def function(x: torch.Tensor) -> torch.Tensor:
            torch._C._set_grad_enabled(mode)
            return x + 1

        compiled(function)(torch.ones(3, requires_grad=self.choices.random() < 0.5))
        assert torch.is_grad_enabled() == mode
        torch.set_grad_enabled(True)


STEPS_OF = (
    Process.train,
    Process.train,
    Process.infer,
    Process.infer_in_a_thread,
    Process.refuse,
    Process.fail_without_gradients,
    Process.fail_in_the_backend,
    Process.change_the_mode,
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_calls_in_any_order(seed: int) -> None:
    torch.manual_seed(seed)
    process = Process(seed)
    for _ in range(STEPS):
        process.choices.choice(STEPS_OF)(process)
        assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        assert not torch.utils._python_dispatch._len_torch_dispatch_stack()
        assert not dynamo_lock.is_held()
