"""Graphs of symbolic sizes that return views of an argument that they update. AOTAutograd
makes the views again, at the strides and offsets of the graph's results."""

import pytest
import torch

import anabranch

SHAPE = (7, 5, 6)
# Layouts: contiguous, with gaps, and with another order of dimensions.
LIES = {"dense": (30, 6, 1), "gaps": (66, 13, 2), "permuted": (1, 42, 7)}
UPDATES = {
    "part": lambda x: x.select(0, 4).add_(1),
    "whole": lambda x: x.mul_(2),
    "filled": lambda x: x.fill_(3),
    "copied": lambda x: x.copy_(torch.arange(5.0)[:, None].expand(7, 5, 6)),
}


def argument(strides: tuple[int, ...], offset: int) -> torch.Tensor:
    values = torch.arange(500).remainder(11).float()
    return values.as_strided(SHAPE, strides, offset)


@pytest.mark.parametrize("offset", [0, 5])
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("update", UPDATES)
def test_views_of_an_updated_argument_are_those_of_eager(update, lie, offset):
    torch._dynamo.reset()

    def function(x):
        UPDATES[update](x)
        return x.chunk(2, 0)[-1], x.narrow(2, 1, 3), x.select(1, 2), x + 1

    ours, theirs = argument(LIES[lie], offset), argument(LIES[lie], offset)
    got = torch.compile(function, backend=anabranch.anabranch, dynamic=True)(ours)
    wanted = function(theirs)
    assert torch.equal(ours, theirs)
    for result, eager in zip(got, wanted, strict=True):
        assert torch.equal(result, eager)
    for result, eager in zip(got[:3], wanted[:3], strict=True):
        assert result.stride() == eager.stride()
        assert result.storage_offset() == eager.storage_offset()
        assert result.untyped_storage().data_ptr() == ours.untyped_storage().data_ptr()


@pytest.mark.parametrize("offset", [0, 5])
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("update", UPDATES)
def test_views_of_an_argument_that_a_training_graph_updates(update, lie, offset):
    torch._dynamo.reset()

    def function(x):
        UPDATES[update](x)
        return x.narrow(2, 1, 3), x.select(1, 2)

    def run(call):
        leaf = argument(LIES[lie], offset).requires_grad_()
        memory = leaf.new_zeros(500) + leaf.sum()
        x = memory.as_strided(SHAPE, LIES[lie], offset)
        first, second = call(x)
        (first.square().sum() + second.sum()).backward()
        return x, first, second, leaf.grad

    got = run(torch.compile(function, backend=anabranch.anabranch, dynamic=True))
    for ours, eager in zip(got, run(function), strict=True):
        torch.testing.assert_close(ours, eager)


# Updates of a whole tensor, of a part, and by a value that is computed from it.
BEFORE = {
    "sum": lambda x: x.add_(1),
    "part": lambda x: x.select(1, 1).add_(1),
    "own": lambda x: x.copy_(x.flip(0)),
    "diagonal": lambda x: x.diagonal().mul_(2),
}
# Operators that count from the start of the memory, not of the tensor.
COUNTS = {
    "fill_diagonal_": lambda x: x.fill_diagonal_(7),
    "as_strided": lambda x: x.as_strided((3, 2), (3, 2), x.storage_offset() + 2) * 3,
    "update": lambda x: x.as_strided((2, 3), (6, 1), x.storage_offset() + 4).neg_(),
    "before": lambda x: x.as_strided((2,), (1,), 0).add_(5),
}


@pytest.mark.parametrize(
    ("offset", "dynamic"), [(0, False), (3, False), (3, True)], ids=str
)
@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("before", BEFORE)
def test_places_in_the_memory_of_an_updated_argument(before, counts, offset, dynamic):
    torch._dynamo.reset()

    def function(x):
        BEFORE[before](x)
        return COUNTS[counts](x), x + 1

    def run(call):
        memory = torch.arange(40.0)
        return [memory, *call(memory[offset : offset + 30].view(6, 5))]

    compiled = torch.compile(function, backend=anabranch.anabranch, dynamic=dynamic)
    for ours, eager in zip(run(compiled), run(function), strict=True):
        assert torch.equal(ours, eager)


FILLED = {
    "argument": lambda x: x,
    "part": lambda x: x[1:],
    "transposed": lambda x: x.transpose(0, 1),
    "with gaps": lambda x: x[:, ::2],
    "intermediate's part": lambda x: (x + 1)[2:],
}


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (11, 3), (20, 1)], ids=str)
@pytest.mark.parametrize(
    ("wrap", "dynamic"), [(False, False), (False, True), (True, False)]
)
def test_diagonals_of_views_are_filled(shape, wrap, dynamic):
    """PyTorch's own trace refuses `fill_diagonal_` of a view."""
    for name, view in FILLED.items():
        torch._dynamo.reset()

        def function(x, view=view):
            part = view(x)
            result = part.fill_diagonal_(7.0, wrap)
            return result * 2, part, x.sum()

        ours = torch.arange(300.0)[5 : 5 + shape[0] * shape[1]].view(shape)
        theirs = torch.arange(300.0)[5 : 5 + shape[0] * shape[1]].view(shape)
        compiled = torch.compile(function, backend="anabranch", dynamic=dynamic)
        try:
            eager = function(theirs)
        except RuntimeError:  # a diagonal that wraps around leaves the memory
            with pytest.raises(RuntimeError):
                compiled(ours)
            continue
        for found, wanted in zip((*compiled(ours), ours), (*eager, theirs)):
            assert torch.equal(found, wanted), name


@pytest.mark.parametrize("value", [3, 2.5])
def test_diagonals_of_cubes_are_filled(value):
    def function(x):
        return x[1:].fill_diagonal_(value).sum(0), x.clone()

    x = torch.rand(4, 3, 3)
    assert anabranch.counters.graphs == 0
    for found, wanted in zip(
        anabranch.compile(function)(x.clone()), function(x.clone())
    ):
        assert torch.equal(found, wanted)
    assert anabranch.counters.graphs == 1


def test_a_diagonal_of_another_shape_is_refused_as_in_eager():
    compiled = anabranch.compile(lambda x: x.fill_diagonal_(1.0))
    for shape in ((5,), (2, 3, 3)):
        torch._dynamo.reset()
        with pytest.raises((RuntimeError, torch._dynamo.exc.TorchRuntimeError)):
            compiled(torch.rand(shape))


@pytest.mark.parametrize("grad", [False, True])
def test_what_a_trace_refuses_pytorch_runs(grad):
    def function(x):
        y = x * 2
        y[1:].as_strided((3,), (6,), 5).mul_(3)
        return y

    x = torch.rand(5, 5, requires_grad=grad)
    found, wanted = anabranch.compile(function)(x), function(x)
    assert torch.equal(found, wanted)
    report = anabranch.last_report()
    assert "as_strided() of a view" in str(report)
    if grad:
        [ours], [theirs] = (torch.autograd.grad(y.sum(), x) for y in (found, wanted))
        assert torch.equal(ours, theirs)


# Copies of a part of a tensor. Eager PyTorch gives them its offset, a trace does not.
COPIES = {
    "select": lambda x: x.select_scatter(x[0] + 100, 0, 0),
    "slice": lambda x: x.slice_scatter(x[:1] + 100, 0, 0, 1),
    "of a view": lambda x: x.unbind(0)[0].slice_scatter(x[1, :2], 0, 0, 2),
}


@pytest.mark.parametrize("copy", COPIES)
def test_places_in_a_copy_that_lies_as_its_source(copy):
    torch._dynamo.reset()

    def function(x):
        return COPIES[copy](x).as_strided((4,), (1,), 3) + 1

    x = torch.arange(40.0)[3:33].view(6, 5)
    compiled = torch.compile(function, backend=anabranch.anabranch)
    assert torch.equal(compiled(x), function(x))


# Views whose elements share memory.
SHARED = {
    "expand": lambda x: x.expand(2, *x.shape),
    "expanded part": lambda x: x[:, 1:2].expand(-1, 3, -1),
    "windows": lambda x: x.unfold(0, 3, 1),
}


@pytest.mark.parametrize("view", SHARED)
@pytest.mark.parametrize("lie", LIES)
def test_views_that_share_elements_of_an_updated_argument(view, lie):
    """The matrix of a view runs in a part of the graph beside PyTorch's operator."""
    torch._dynamo.reset()

    def function(x):
        x.diagonal(0, -2, -1).add_(1)
        shared = SHARED[view](x)
        return shared, torch.special.i1(shared @ shared.mT / 1000)

    ours, theirs = argument(LIES[lie], 1), argument(LIES[lie], 1)
    got = torch.compile(function, backend=anabranch.anabranch, dynamic=True)(ours)
    wanted = function(theirs)
    assert torch.equal(ours, theirs)
    assert torch.equal(got[0], wanted[0])
    assert got[0].stride() == wanted[0].stride()
    torch.testing.assert_close(got[1], wanted[1])


LEARNT = {
    "first": lambda x: x.unflatten(0, (5, -1))[5:5:2, :].fill_(2),
    "part": lambda x: x.unflatten(0, (5, -1))[1:4].mul_(3),
    "last": lambda x: x.view(-1, 5)[:, 2].add_(1),
    "all": lambda x: x.view(5, -1).copy_(torch.arange(5.0)[:, None]),
}


@pytest.mark.parametrize("update", LEARNT)
def test_an_update_by_a_view_from_which_the_trace_learns_a_size(update):
    """The rest of a division is one, so the trace knows the size of the new value. It has
    described the argument before."""

    def function(x):
        LEARNT[update](x)
        return x * 2

    compiled = torch.compile(
        function, backend="anabranch", fullgraph=True, dynamic=True
    )
    for size in (5, 5, 10, 15):
        ours = torch.arange(float(size))
        theirs = ours.clone()
        torch.testing.assert_close(compiled(ours), function(theirs))
        torch.testing.assert_close(ours, theirs)
    assert anabranch.counters.eager_graphs == 0
