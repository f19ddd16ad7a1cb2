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
