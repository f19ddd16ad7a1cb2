"""Small models, and ways in which their owner changes the weights."""

from __future__ import annotations

import torch
from torch import nn


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(9, 16), nn.GELU(), nn.Linear(16, 5)).eval()


class Counting(nn.Module):
    """A model whose graph updates its buffer, and reads a view of it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("part", self.total[:2])
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x):
        self.total.add_(x)
        return self.total * self.weight + self.part.sum()


class Method(nn.Module):
    """A model whose method is cached."""

    def __init__(self):
        super().__init__()
        self.body = mlp()

    def run(self, x):
        return self.body(x)


def check(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


# Each entry changes the model's result in another way.


def load_state(module):
    module.load_state_dict({n: t + 0.5 for n, t in module.state_dict().items()})


def add(module):
    module[0].weight.add_(0.5)


def copy(module):
    module[2].weight.copy_(torch.randn(5, 16))


def data(module):
    module[2].bias.data = torch.randn(5)


def data_twice(module):
    """Replaces the memory twice: the second may get the address of the first."""
    for _ in range(2):
        module[2].bias.data = module[2].bias.data + 1


def fill_item(module):
    module[0].bias[3] = 7.0


def vector(module):
    flat = nn.utils.parameters_to_vector(module.parameters())
    nn.utils.vector_to_parameters(flat + 0.25, module.parameters())


def other_part(module):
    """Moves the bias within the memory that it is already a part of."""
    memory = torch.randn(10)
    module[2].bias.data = memory[:5]
    module[2].bias.data = memory[5:]


def sgd(module):
    with torch.enable_grad():
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
        module(torch.ones(2, 9)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def fused_adam(module):
    with torch.enable_grad():
        optimizer = torch.optim.Adam(module.parameters(), lr=0.5, fused=True)
        module(torch.ones(2, 9)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def initialise(module):
    nn.init.normal_(module[0].weight)


def replace(module):
    module[2].bias = None
    module[2].bias = nn.Parameter(torch.randn(5))


def in_inference_mode(module):
    with torch.inference_mode():
        module[0].weight.mul_(2)


UPDATES = [
    *(load_state, add, copy, data, data_twice, fill_item, vector, other_part),
    *(sgd, fused_adam, initialise, replace, in_inference_mode),
]


class Model(nn.Module):
    """A model of one weight, which `WRITES` write."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32, 32))

    def forward(self, x):
        return torch.relu(x @ self.weight.t())


def new() -> torch.Tensor:
    return torch.randn(32, 32)


def copied(model):
    model.weight.copy_(new())


def data_replaced(model):
    model.weight.data = new()


REPLACED: list[nn.Parameter] = []  # somebody still holds them


def parameter_replaced(model):
    REPLACED.append(model.weight)
    model.weight = nn.Parameter(new())


def loaded(model):
    model.load_state_dict({"weight": new()})


def assigned(model):
    REPLACED.append(model.weight)
    model.load_state_dict({"weight": new()}, assign=True)


def data_copied(model):
    model.weight.data.copy_(new())


def row(model):
    model.weight.data[5] = 7


def array(model):
    model.weight.detach().numpy()[:] = new().numpy()


def element(model):
    model.weight.detach().numpy()[5, 7] = 700


def inferred(model):
    with torch.inference_mode():
        model.weight.copy_(new())


# By the words of docs/weights.md.
WRITES = {
    "`weight.copy_` under `no_grad`": copied,
    "`weight.data = new`": data_replaced,
    "`model.weight = nn.Parameter(new)`": parameter_replaced,
    "`load_state_dict`": loaded,
    "`load_state_dict(assign=True)`": assigned,
    "`weight.data.copy_`": data_copied,
    "one row of `weight.data`": row,
    "all of `weight.detach().numpy()`": array,
    "one element of `weight.detach().numpy()`": element,
    "`copy_` into a weight made in inference mode": inferred,
}
