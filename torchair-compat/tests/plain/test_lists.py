"""Updates of lists of tensors, and of copies of a cache, equal loops in Python."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled

PLACES = torch.tensor([1, 3, 0])
MASK = torch.tensor([1, 0, 1], dtype=torch.uint8)


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8, torch.float32])
@pytest.mark.parametrize("axis", [-1, -2])
def test_lists(dtype, axis) -> None:
    tensors = [torch.randint(-9, 9, (2, 4, 5)).to(dtype) for _ in PLACES]
    shape = (3, 2, 1, 5) if axis == -2 else (3, 2, 4, 1)
    updates = torch.randint(-9, 9, shape).to(dtype)
    wanted = [tensor.clone() for tensor in tensors]
    for tensor, place, update, kept in zip(wanted, PLACES, updates, MASK):
        if kept:
            tensor.select(axis, int(place)).copy_(update.squeeze(axis))

    def function(tensors, places, updates, mask):
        return torch_npu.npu_scatter_list(
            tensors, places, updates, mask, "update", axis
        )

    runs = [function] + ([compiled(function)] if dtype == torch.float16 else [])
    for run in runs:
        made = run(tensors, PLACES, updates, MASK)
        assert all(torch.equal(one, other) for one, other in zip(made, wanted))
    torch_npu.npu_scatter_list_(tensors, PLACES, updates, MASK, "update", axis)
    assert all(torch.equal(one, other) for one, other in zip(tensors, wanted))


def test_copies_of_caches() -> None:
    key, value = torch.randn(3, 2, 16), torch.randn(3, 2, 16)
    caches = torch.randn(4, 4, 2, 16), torch.randn(4, 4, 2, 16)
    slots = torch.tensor([5, -1, 9])
    kept = [cache.clone() for cache in caches]
    run = torch_npu.npu_scatter_pa_kv_cache_functional
    made = run(key, value, *caches, slots, cache_mode="Norm")
    assert all(torch.equal(one, other) for one, other in zip(caches, kept))
    for cache, rows in zip(kept, (key, value)):
        cache.view(16, 2, 16)[slots[::2]] = rows[::2]
    assert all(torch.equal(one, other) for one, other in zip(made, kept))


def test_wrong_arguments() -> None:
    tensors, updates = [torch.zeros(2, 4)] * 2, torch.zeros(2, 1, 4)
    right = {"indices": PLACES[:2], "updates": updates}
    for change, text in (
        ({"axis": 0}, "axis must be -1 or -2, got 0"),
        ({"reduce": "add"}, "reduce must be update, got 'add'"),
        ({"indices": PLACES}, "indices must have shape"),
        ({"updates": updates.half()}, "updates must be float32"),
        ({"updates": updates[:, :, :3]}, "updates must have shape"),
        ({"mask": MASK}, "mask must have shape"),
    ):
        with pytest.raises(RuntimeError, match=f"npu_scatter_list: .*{text}"):
            torch_npu.npu_scatter_list(tensors, **{**right, **change})
