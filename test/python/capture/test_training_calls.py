"""Training equals eager's with backward() inside of the compiled function, and with
updates of results that share memory."""

import pytest
import torch
from torch.autograd import forward_ad

from anabranch.backend import anabranch as backend


def two_losses(a, b):
    product = a @ torch.ones(2, 2)
    first = product.abs().mean()
    first.backward()
    second = (b @ product.detach()).mean()
    second.backward()
    return first, second


def complex_loss(a, b):
    loss = torch.view_as_real(torch.fft.fft(a) * b).square().sum()
    loss.backward()
    return loss


@pytest.mark.parametrize("function", [two_losses, complex_loss])
def test_backward_inside_of_the_compiled_function(function):
    leaves = [torch.randn(2, 2, requires_grad=True) for _ in range(2)]
    copies = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend)
    for _ in range(2):  # the second call finds the backward pass compiled
        torch.testing.assert_close(compiled(*copies), function(*leaves))
    for copy, leaf in zip(copies, leaves):
        torch.testing.assert_close(copy.grad, leaf.grad)


def test_compiled_autograd_passes_its_tensors_in_a_list():
    """Dynamo passes all tensors that a backward pass reads in one list, also sizes behind
    it where they change."""

    def gradients(step, layers):
        found = []
        for rows in (3, 3, 5, 4):
            layers.zero_grad()
            step(layers, torch.linspace(-1, 1, rows * 4).view(rows, 4))
            found.append([weight.grad.clone() for weight in layers.parameters()])
        return found

    def step(layers, x):
        layers(x).square().sum().backward()

    layers = torch.nn.Sequential(
        torch.nn.Linear(4, 6), torch.nn.GELU(), torch.nn.Linear(6, 2)
    )
    with torch._dynamo.config.patch(compiled_autograd=True):
        got = gradients(torch.compile(step, backend=backend), layers)
    torch.testing.assert_close(got, gradients(step, layers))


def test_gradients_of_bags_in_bf16():
    """PyTorch's trace has other shapes than its kernel returns."""
    weight = torch.randn(7, 4).bfloat16().requires_grad_()
    copy = weight.detach().clone().requires_grad_()
    indices, offsets = torch.tensor([1, 2, 4, 5, 4]), torch.tensor([0, 3])

    def bags(weight):
        return torch.nn.functional.embedding_bag(indices, weight, offsets, mode="sum")

    torch._dynamo.reset()
    compiled = torch.compile(bags, backend=backend)
    for result, leaf in ((compiled(copy), copy), (bags(weight), weight)):
        result.square().sum().backward()
    torch.testing.assert_close(compiled(copy), bags(weight))
    torch.testing.assert_close(copy.grad, weight.grad)


VIEWS = {
    "flat": lambda t: t.view(-1),
    "unsqueeze": lambda t: t.unsqueeze(0),
    "transposed": lambda t: t.t(),
    "row": lambda t: t[1],
    "itself": lambda t: t,
}


@pytest.mark.parametrize("first", VIEWS)
@pytest.mark.parametrize("second", ["unsqueeze", "itself"])
def test_results_that_share_memory_can_be_updated(first, second):
    def function(x):
        shared = x.mul(2)
        return VIEWS[first](shared), VIEWS[second](shared)

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend)
    for updated in (0, 1):
        x = torch.randn(2, 2, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        expected, actual = function(x), compiled(y)
        for results in (expected, actual):
            results[updated].mul_(3)
        torch.testing.assert_close(actual, expected)
        sum(t.square().sum() for t in expected).backward()
        sum(t.square().sum() for t in actual).backward()
        torch.testing.assert_close(y.grad, x.grad)


class Gradients:
    """Enables or disables gradients; a graph break inside leaves the mode to graphs that
    compute nothing else."""

    def __init__(self, enabled):
        self.enabled = enabled

    def __enter__(self):
        self.before = torch.is_grad_enabled()
        torch._C._set_grad_enabled(self.enabled)

    def __exit__(self, *_):
        torch._C._set_grad_enabled(self.before)


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_a_graph_leaves_gradients_enabled_or_disabled(outside, inside):
    def function(x):
        with Gradients(inside):
            x = x + 1
            if torch.is_grad_enabled():
                x = x * 2
            torch._dynamo.graph_break()
            x = x * 3
            if torch.is_grad_enabled():
                x = x - 5
        return x - 1

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend)
    x = torch.randn(3)
    for _ in range(2):
        with torch.set_grad_enabled(outside):
            torch.testing.assert_close(compiled(x), function(x))
            assert torch.is_grad_enabled() == outside


@pytest.mark.parametrize("mode", [False, True])
def test_a_graph_sets_the_mode_of_gradients(mode):
    def function(x):
        torch._C._set_grad_enabled(mode)
        return x + 1

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend)
    for _ in range(2):
        with torch.set_grad_enabled(not mode):
            compiled(torch.randn(3))
            assert torch.is_grad_enabled() == mode


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("needs", [False, True])
def test_leaving_inference_mode_enables_gradients(outside, needs):
    def function(x):
        with torch.inference_mode(False):
            y = x * 2
        return y, x + 1

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend)
    x = torch.randn(3, requires_grad=needs)
    with torch.set_grad_enabled(outside):
        for found, expected in zip(compiled(x), function(x)):
            torch.testing.assert_close(found, expected)
            assert found.requires_grad == expected.requires_grad


def test_a_call_that_fails_leaves_the_mode_of_gradients_as_it_was():
    def function(x, index):
        with torch.no_grad():
            y = x * 2
            torch._dynamo.graph_break()
            y = y[index]
        return y

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x, torch.tensor([1])), x[1:2] * 2)
    for mode in (False, True):
        with torch.set_grad_enabled(mode):
            with pytest.raises(IndexError):
                compiled(x, torch.tensor([7]))
            assert torch.is_grad_enabled() == mode


def test_gradients_that_the_function_enables():
    def function(x):
        with torch.enable_grad():
            y = x.sin()
            torch._dynamo.graph_break()
            y.cos().sigmoid().sum().backward()
        return x.grad

    leaf = torch.randn(3, requires_grad=True)
    copy = leaf.detach().clone().requires_grad_()
    torch._dynamo.reset()
    with torch.no_grad():
        found = torch.compile(function, backend=backend)(copy)
        torch.testing.assert_close(found, function(leaf))


@pytest.mark.parametrize("dynamic", [False, True])
def test_forward_mode_gradients(dynamic):
    def function(x, y):
        return (x * 2 + y).sin()

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend, dynamic=dynamic)
    x, y, tangent = torch.randn(3), torch.randn(3), torch.randn(3)
    torch.testing.assert_close(compiled(x, y), function(x, y))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, tangent)
        found = [forward_ad.unpack_dual(f(dual, y)) for f in (compiled, function)]
    torch.testing.assert_close(*found)
    torch.testing.assert_close(compiled(x, y), function(x, y))


def test_zeros_without_memory():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x + 1, backend=backend)
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))
    assert torch.equal(compiled(torch._efficientzerotensor(3)), torch.ones(3))
