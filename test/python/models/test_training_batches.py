"""Gradients equal eager's in batches of other sizes: what the forward graph saves has
the strides that the backward graph was traced with."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import anabranch
from anabranch.backend import anabranch as backend

functional = nn.functional
WIDTH, LENGTH = 8, 5


class Module(nn.Module):
    """A module with layers, and a function of these and of the input."""

    def __init__(self, function, **layers):
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self.function(self, x)


def rows(batch):
    return torch.randn(batch, WIDTH)


def sequences(batch):
    return torch.randn(batch, LENGTH, WIDTH)


def images(batch):
    return torch.randn(batch, 4, 6, 6)


def tokens(batch):
    return torch.randint(0, 19, (batch, LENGTH))


def linear():
    return nn.Linear(WIDTH, WIDTH)


def heads(x):
    return x.view(x.shape[0], -1, 2, WIDTH // 2).transpose(1, 2)


def attend(self, x, **how):
    parts = (heads(layer(x)) for layer in (self.q, self.k, self.v))
    found = functional.scaled_dot_product_attention(*parts, **how)
    return found.transpose(1, 2).flatten(2)


def attention(**how):
    layers = {name: linear() for name in "qkv"}
    return Module(lambda self, x: attend(self, x, **how), **layers)


def masked(self, x):
    mask = torch.ones(x.shape[0], 1, 1, LENGTH, dtype=torch.bool)
    return attend(self, x, attn_mask=mask.expand(-1, 1, LENGTH, -1))


def positions(self, x):
    """As BERT's embeddings: numbers of positions, expanded to the batch."""
    ids = torch.arange(LENGTH).expand(x.shape[0], -1)
    kinds = torch.zeros(LENGTH, dtype=torch.long)[None].expand(x.shape[0], -1)
    return self.words(x) + self.places(ids) + self.kinds(kinds)


def classes(self, x):
    """A token of the model's own before each sequence, as in vision transformers."""
    first = self.token.expand(x.shape[0], -1, -1)
    return self.block(torch.cat([first, x], 1))[:, 0]


def relative(self, x):
    distance = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH) + LENGTH
    bias = self.bias(distance).permute(2, 0, 1)[None].expand(x.shape[0], -1, -1, -1)
    return attend(self, x, attn_mask=bias)


def rotary(self, x):
    angles = torch.arange(LENGTH)[:, None] * torch.arange(1, 5) / 7
    sin, cos = (
        f(angles)[None].expand(x.shape[0], -1, -1) for f in (torch.sin, torch.cos)
    )
    even, odd = self.q(x).chunk(2, -1)
    return torch.cat([even * cos - odd * sin, odd * cos + even * sin], -1)


def experts(self, x):
    weights = self.gate(x).softmax(-1)
    found = torch.stack([layer(x) for layer in (self.a, self.b)], -1)
    return (found * weights[:, None, :].expand(-1, WIDTH, -1)).sum(-1)


def queries(self, x):
    """As a detector's decoder: learnt queries that attend to the input."""
    asked = self.asked.weight.unsqueeze(0).repeat(x.shape[0], 1, 1)
    return self.attention(asked, x, x)[0]


def recurrent(self, x):
    state = self.start.expand(x.shape[0], -1)
    for step in x.unbind(1):
        state = torch.tanh(self.a(step) + self.b(state))
    return state


def transformer():
    return nn.TransformerEncoderLayer(WIDTH, 2, 16, 0.0, batch_first=True)


def convolutions(*layers):
    return nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), *layers, nn.Flatten())


MODELS = {
    "linear": (rows, linear),
    "perceptron": (rows, lambda: nn.Sequential(linear(), nn.GELU(), linear())),
    "relu": (
        rows,
        lambda: nn.Sequential(linear(), nn.ReLU(), linear(), nn.Softmax(-1)),
    ),
    "layer norm": (sequences, lambda: nn.Sequential(linear(), nn.LayerNorm(WIDTH))),
    "rms norm": (sequences, lambda: nn.Sequential(linear(), nn.RMSNorm(WIDTH))),
    "batch norm": (rows, lambda: nn.Sequential(linear(), nn.BatchNorm1d(WIDTH).eval())),
    "attention": (sequences, attention),
    "causal attention": (sequences, lambda: attention(is_causal=True)),
    "masked attention": (
        sequences,
        lambda: Module(masked, **{name: linear() for name in "qkv"}),
    ),
    "relative positions": (
        sequences,
        lambda: Module(
            relative, bias=nn.Embedding(11, 2), **{name: linear() for name in "qkv"}
        ),
    ),
    "rotary positions": (sequences, lambda: Module(rotary, q=linear())),
    "embeddings of BERT": (
        tokens,
        lambda: Module(
            positions,
            words=nn.Embedding(19, WIDTH),
            places=nn.Embedding(LENGTH, WIDTH),
            kinds=nn.Embedding(2, WIDTH),
        ),
    ),
    "class token": (
        sequences,
        lambda: Module(
            classes, token=nn.Parameter(torch.randn(1, 1, WIDTH)), block=transformer()
        ),
    ),
    "transformer": (sequences, transformer),
    "transformer, norm first": (
        sequences,
        lambda: nn.TransformerEncoderLayer(
            WIDTH, 2, 16, 0.0, batch_first=True, norm_first=True
        ),
    ),
    "learnt queries": (
        sequences,
        lambda: Module(
            queries,
            asked=nn.Embedding(3, WIDTH),
            attention=nn.MultiheadAttention(WIDTH, 2, batch_first=True),
        ),
    ),
    "embedding": (tokens, lambda: nn.Sequential(nn.Embedding(19, WIDTH), linear())),
    "bag": (tokens, lambda: nn.EmbeddingBag(19, WIDTH)),
    "tied words": (
        tokens,
        lambda: Module(
            lambda self, x: self.words(x) @ self.words.weight.t(),
            words=nn.Embedding(19, WIDTH),
        ),
    ),
    "experts": (
        rows,
        lambda: Module(experts, gate=nn.Linear(WIDTH, 2), a=linear(), b=linear()),
    ),
    "gated": (
        rows,
        lambda: Module(lambda self, x: functional.glu(self.a(x)), a=linear()),
    ),
    "bilinear": (
        rows,
        lambda: Module(lambda self, x: self.b(x, x), b=nn.Bilinear(WIDTH, WIDTH, 3)),
    ),
    "pooled": (
        sequences,
        lambda: Module(
            lambda self, x: (self.a(x) * x.mean(1, keepdim=True).expand_as(x)).amax(1),
            a=linear(),
        ),
    ),
    "recurrent": (
        sequences,
        lambda: Module(
            recurrent, start=nn.Parameter(torch.zeros(1, WIDTH)), a=linear(), b=linear()
        ),
    ),
    "convolution": (images, lambda: convolutions(nn.ReLU())),
    "convolution, pooled": (
        images,
        lambda: convolutions(
            nn.MaxPool2d(2), nn.Conv2d(8, 4, 3), nn.AdaptiveAvgPool2d(1)
        ),
    ),
    "convolution, group norm": (
        images,
        lambda: convolutions(nn.GroupNorm(2, 8), nn.SiLU()),
    ),
    "convolution, upsampled": (
        images,
        lambda: convolutions(nn.Upsample(scale_factor=2)),
    ),
    "convolution of a line": (
        sequences,
        lambda: Module(
            lambda self, x: self.c(x.transpose(1, 2)).transpose(1, 2).cumsum(1),
            c=nn.Conv1d(WIDTH, WIDTH, 3, padding=1),
        ),
    ),
    "distances": (
        rows,
        lambda: Module(
            lambda self, x: (self.a(x)[:, None] - x[None]).square().sum(-1), a=linear()
        ),
    ),
}
SHAPES = {"static": False, "automatic": None, "dynamic": True}


def gradients(model, run, x):
    """The results of a step, and the gradients of the parameters and of the input."""
    model.zero_grad(set_to_none=True)
    if x.is_floating_point():
        x = x.clone().requires_grad_()
    result = run(x)
    result.square().mean().backward()
    found = [result.detach(), *(p.grad for p in model.parameters())]
    return [*found, x.grad] if x.is_floating_point() else found


@pytest.mark.slow
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_another_batch(name, shapes):
    inputs, make = MODELS[name]
    torch.manual_seed(0)
    model = make()
    ours = copy.deepcopy(model)
    compiled = torch.compile(ours, backend=backend, dynamic=SHAPES[shapes])
    for batch in (2, 2, 3, 1, 2):
        x = inputs(batch)
        found, wanted = gradients(ours, compiled, x), gradients(model, model, x)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert anabranch.counters.eager_graphs == 0
