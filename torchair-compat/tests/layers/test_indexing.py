"""npu_indexing against Python's slices."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

import torch_npu
from pictures import compiled

X = torch.arange(60.0).reshape(3, 4, 5)


def random_places(made: random.Random) -> tuple[dict, tuple]:
    """Arguments of the operator, and Python's index for them."""
    given = {"begin": [], "end": [], "strides": []}
    masks = dict.fromkeys(("begin", "end", "ellipsis", "new_axis", "shrink_axis"), 0)
    index: list = []
    rest = made.choice([None, 0, 1])
    for place in range(made.randint(1, 3)):
        step = made.choice([1, 2, -1, -2])
        begin, end = made.randint(-4, 4), made.randint(-4, 4)
        kind = made.choice(["slice", "slice", "new_axis", "shrink_axis"])
        bit = 1 << place
        if place == rest:
            masks["ellipsis"] |= bit
            index.append(...)
        elif kind == "new_axis":
            masks["new_axis"] |= bit
            index.append(None)
        elif kind == "shrink_axis":
            masks["shrink_axis"] |= bit
            begin, step = made.randint(0, 2), 1
            index.append(begin)
        else:
            first, last = made.random() < 0.3, made.random() < 0.3
            masks["begin"] |= bit * first
            masks["end"] |= bit * last
            index.append(slice(None if first else begin, None if last else end, step))
        for name, value in (("begin", begin), ("end", end), ("strides", step)):
            given[name].append(value)
    return given | {f"{name}_mask": mask for name, mask in masks.items()}, tuple(index)


def test_random_places() -> None:
    made = random.Random(0)
    for _ in range(300):
        given, index = random_places(made)
        wanted = torch.from_numpy(np.array(X.numpy()[index]))
        found = torch_npu.npu_indexing(X, **given)
        assert torch.equal(found, wanted), (given, index)
        assert found.is_contiguous()


def test_graph_and_out() -> None:
    def part(x):
        return torch_npu.npu_indexing(x, [1, 3], [3, -5], [1, -2], new_axis_mask=0)

    wanted = torch.from_numpy(X.numpy()[1:3, 3:-5:-2].copy())
    assert torch.equal(compiled(part)(X), wanted)
    out = torch.zeros_like(wanted)
    torch_npu.npu_indexing.out(X, [1, 3], [3, -5], [1, -2], out=out)
    assert torch.equal(out, wanted)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (([0], [1, 2], [1]), "begin, end and strides"),
        (([0], [1], [0]), "strides must not be 0"),
        (([0] * 4, [1] * 4, [1] * 4), "4 places for 3 dimensions"),
        (([0, 0], [1, 1], [1, 1], 0, 0, 3), "ellipsis_mask"),
        (([7], [8], [1], 0, 0, 0, 0, 1), "begin has 7"),
        (([1], [2], [-1], 0, 0, 0, 0, 1), "strides must be positive"),
        (tuple([k] * 6 for k in (0, 1, 1)) + (0, 0, 0, 63), "at most 8"),
    ],
)
def test_wrong(given, text) -> None:
    with pytest.raises(RuntimeError, match=f"npu_indexing: .*{text}"):
        torch_npu.npu_indexing(X, *given)
