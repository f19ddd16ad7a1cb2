"""Our kernels run batch norm in training: results and running statistics."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import anabranch

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
EPS = 1e-5


def statistics(dtype):
    return torch.rand(3, dtype=dtype), torch.rand(3, dtype=dtype) + 0.5


def both(call, *tensors):
    """(eager, compiled, eager's arguments after, the compiled call's after)."""
    torch._dynamo.reset()
    anabranch.counters.reset()
    mine = [tensor.clone() for tensor in tensors]
    theirs = [tensor.clone() for tensor in tensors]
    with torch.no_grad():
        ours = torch.compile(call, backend=anabranch.anabranch)(*mine)
        eager = call(*theirs)
    assert anabranch.counters.graphs == 1
    assert anabranch.last_report()["fallbacks"] == []
    return [*eager, *theirs], [*ours, *mine]


def check(call, dtype, *tensors):
    tolerance = {torch.float16: 4e-3, torch.bfloat16: 2e-2}.get(dtype, 1e-5)
    for eager, ours in zip(*both(call, *tensors), strict=True):
        assert ours.dtype == eager.dtype
        torch.testing.assert_close(
            ours, eager, rtol=tolerance, atol=tolerance, equal_nan=True
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 4, 5)])
@pytest.mark.parametrize("affine", [True, False])
def test_training_updates_the_running_statistics(dtype, shape, affine):
    weight, bias = statistics(dtype)

    def call(x, mean, variance):
        w, b = (weight, bias) if affine else (None, None)
        return [functional.batch_norm(x, mean, variance, w, b, True, 0.3, EPS)]

    check(call, dtype, torch.randn(shape).to(dtype), *statistics(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_operators_return_the_saved_statistics(dtype):
    aten = torch.ops.aten
    x, (weight, bias) = torch.randn(2, 3, 5).to(dtype), statistics(dtype)

    def call(x, mean, variance):
        return [
            *aten.native_batch_norm(x, weight, bias, mean, variance, True, 0.1, EPS),
            *aten._native_batch_norm_legit(
                x, weight, bias, mean, variance, True, 0.1, EPS
            ),
            *aten._native_batch_norm_legit.no_stats(x, weight, bias, True, 0.1, EPS),
            *aten._batch_norm_with_update(x, weight, bias, mean, variance, 0.1, EPS),
        ]

    check(call, dtype, x, *statistics(dtype))


def test_half_inputs_with_single_precision_statistics():
    x = torch.randn(2, 3, 5).bfloat16()
    weight, bias = statistics(torch.float32)

    def call(x, mean, variance):
        return [functional.batch_norm(x, mean, variance, weight, bias, True)]

    check(call, torch.bfloat16, x, *statistics(torch.float32))


def test_symbolic_sizes():
    def call(x, mean, variance):
        return [functional.batch_norm(x, mean, variance, None, None, True)]

    compiled = torch.compile(call, backend=anabranch.anabranch, dynamic=True)
    for shape in [(2, 3, 5), (4, 3, 7), (5, 3, 2)]:
        x, running = torch.randn(shape), statistics(torch.float32)
        mine = [tensor.clone() for tensor in running]
        with torch.no_grad():
            ours, eager = compiled(x, *mine), call(x, *running)
        torch.testing.assert_close([*ours, *mine], [*eager, *running])
    assert anabranch.last_report()["fallbacks"] == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_instance_norm(dtype):
    def call(x, mean, variance):
        return [functional.instance_norm(x, mean, variance)]

    check(call, dtype, torch.randn(2, 3, 5).to(dtype), *statistics(dtype))


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(4, 6, 3)
        self.batch = torch.nn.BatchNorm1d(6)
        self.group = torch.nn.GroupNorm(2, 6)
        self.layer = torch.nn.LayerNorm(8)
        self.last = torch.nn.Linear(48, 5)

    def forward(self, x, target):
        x = self.layer(self.group(self.batch(self.conv(x))))
        scores = functional.log_softmax(self.last(x.flatten(1)), -1)
        return functional.nll_loss(scores, target)


def test_a_training_step_has_the_gradients_of_eager():
    torch.manual_seed(0)
    ours, theirs = Normed(), Normed()
    theirs.load_state_dict(ours.state_dict())
    x, target = torch.randn(3, 4, 10), torch.tensor([1, 2, 4])
    torch.compile(ours, backend=anabranch.anabranch)(x, target).backward()
    # Nobody asks for the gradient of the input, so PyTorch leaves it undefined.
    backward = anabranch.last_report()
    assert [e["op"] for e in backward["fallbacks"]] == ["aten.convolution_backward"]
    theirs(x, target).backward()
    for (name, mine), their in zip(ours.named_parameters(), theirs.parameters()):
        torch.testing.assert_close(mine.grad, their.grad, msg=name)
    torch.testing.assert_close(ours.batch.running_var, theirs.batch.running_var)


class AfterConvolution(torch.nn.Module):
    """A group norm whose channels the convolution before it leaves last."""

    def __init__(self, channels: int, groups: int, dims: int = 2) -> None:
        super().__init__()
        kind = (torch.nn.Conv1d, torch.nn.Conv2d)[dims - 1]
        self.convolution = kind(channels, channels, 3, padding=1)
        self.norm = torch.nn.GroupNorm(groups, channels)
        torch.nn.init.normal_(self.norm.weight)
        torch.nn.init.normal_(self.norm.bias)

    def forward(self, x):
        x = self.norm(self.convolution(x).relu() + 1)
        return torch.nn.functional.silu(x[:, 1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("groups", [1, 4, 32])
def test_groups_of_channels_that_are_last(groups, dtype):
    torch.manual_seed(0)
    module = AfterConvolution(32, groups).to(dtype).eval()
    check(lambda x: [module(x)], dtype, torch.randn(2, 32, 9, 7, dtype=dtype))


def test_groups_of_dynamic_images_and_of_lines():
    torch.manual_seed(0)
    for dims, sizes in ((2, [(2, 9, 7), (5, 6, 6)]), (1, [(2, 11), (3, 40)])):
        module = AfterConvolution(32, 8, dims).eval()
        torch._dynamo.reset()
        compiled = torch.compile(module, backend=anabranch.anabranch, dynamic=True)
        for batch, *size in sizes:
            x = torch.randn(batch, 32, *size)
            with torch.no_grad():
                torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)


def test_gradients_of_groups_of_channels_that_are_last():
    torch.manual_seed(0)
    module = AfterConvolution(16, 4)
    x, gradients = torch.randn(2, 16, 5, 6), []
    for call in (module, torch.compile(module, backend=anabranch.anabranch)):
        leaf = x.clone().requires_grad_()
        module.zero_grad()
        call(leaf).square().mean().backward()
        gradients.append([leaf.grad, *(p.grad.clone() for p in module.parameters())])
    for eager, ours in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5)


def test_groups_far_from_zero_lose_no_digits():
    """The variance is taken around the mean."""
    torch.manual_seed(0)
    module = AfterConvolution(16, 4).eval()
    module.convolution.bias.data += 1000
    exact = AfterConvolution(16, 4).double().eval()
    exact.load_state_dict(module.state_dict())
    x = torch.randn(1, 16, 20, 20)
    torch._dynamo.reset()
    with torch.no_grad():
        wanted = exact(x.double())
        ours = torch.compile(module, backend=anabranch.anabranch)(x) - wanted
        eager = module(x) - wanted
    assert ours.square().mean() <= 4 * eager.square().mean()
