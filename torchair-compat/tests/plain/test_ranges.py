"""Ranges of elements, and the calibration of a scale, equal loops in float64."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import torch_npu
from pictures import compiled

DTYPES = [torch.float32, torch.float16, torch.int32, torch.int8]


def filled(x, start, end, value, axis):
    made, dims = x.clone(), x.dim()
    last = dims > 1 and axis == dims - 1
    for i, j in itertools.product(*map(range, start.shape)):
        for k in range(max(int(start[i, j]), 0), min(int(end[i, j]), x.shape[axis])):
            if last:
                made[j, ..., k] = value[i]
            else:
                made.select(axis, k).fill_(value[i].item())
    return made


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((7,), 0), ((4, 7), 0), ((3, 7), 1), ((3, 4, 7), 1), ((3, 4, 7), 2)],
)
def test_masked_fill_range(shape, axis, dtype) -> None:
    x = torch.randint(1, 100, shape).to(dtype)
    start = torch.randint(-1, 4, (2, 3), dtype=torch.int32)
    end = start + torch.randint(0, 5, (2, 3), dtype=torch.int32)
    value = torch.tensor([5, 9]).to(dtype)
    wanted = filled(x, start, end, value, axis)
    for place in (axis, axis - len(shape)):
        for run in (
            torch_npu.npu_masked_fill_range,
            compiled(torch_npu.npu_masked_fill_range),
        ):
            assert torch.equal(run(x, start, end, value, place), wanted)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_normalize_batch(dtype, kind) -> None:
    x = (torch.rand(4, 3, 9) * 9 + 1).to(dtype)
    lengths = torch.tensor([2, 9, 5, 30], dtype=torch.int32)

    def function(x, lengths):
        return torch_npu.npu_normalize_batch(x, lengths, kind)

    rows = []
    for row, length in zip(x.double(), lengths.tolist()):
        part = row[:, :length]
        part = part.flatten() if kind else part
        mean, deviation = part.mean(-1), part.std(-1)
        if not kind:
            mean, deviation = mean.unsqueeze(-1), deviation.unsqueeze(-1)
        rows.append((row - mean) / (deviation + 1e-5))
    wanted = torch.stack(rows).to(dtype)
    for run in (function, compiled(function), compiled(function, dynamic=True)):
        torch.testing.assert_close(run(x, lengths), wanted, atol=1e-4, rtol=1e-2)


def lost_least(x, counts, low, high, parts, steps, with_offset):
    bins, numbers = len(counts), x.double().flatten().tolist()
    share = [count / len(numbers) for count in counts]
    upper = sum(s < parts[1] for s in share) / bins * (high - low) + low
    lower = sum(s < 1 - parts[0] for s in share) / bins * (high - low) + low
    found = []
    for step in steps:
        scale, offset = max(abs(upper), abs(lower)) * step / 127, 0
        if with_offset:
            bottom = min(lower, 0)
            scale = (max(upper, 0) * step - bottom) / 255
            offset = -(round(bottom / scale) + 128)
        lost = 0.0
        for number in numbers:
            whole = min(max(round(number / scale) + offset, -128), 127)
            lost += ((whole - offset) * scale - number) ** 2
        found.append((lost, scale, offset))
    return found


@pytest.mark.parametrize("with_offset", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_ifmr(dtype, with_offset) -> None:
    torch.manual_seed(3)
    x = torch.randn(6, 20).to(dtype)
    low, high = x.min().view(1), x.max().view(1)
    counts = torch.histc(x.float(), 16).cumsum(0).int()
    told = 0.99, 0.95, 0.7, 1.3, 0.05, with_offset

    def function(x, low, high, counts):
        return torch_npu.npu_ifmr(x, low, high, counts, *told)

    steps = [0.7 + 0.05 * i for i in range(math.ceil((1.3 - 0.7) / 0.05))]
    ways = lost_least(
        x, counts.tolist(), float(low), float(high), told[:2], steps, with_offset
    )
    for run in (function, compiled(function)):
        scale, offset = run(x, low, high, counts)
        assert scale.shape == offset.shape == (1,)
        (mine,) = [w for w in ways if math.isclose(w[1], float(scale), rel_tol=1e-5)]
        assert mine[2] == float(offset)
        # f32 may choose a way that loses as much but for rounding.
        assert mine[0] <= min(ways)[0] * (1 + 1e-4)


def test_wrong_arguments() -> None:
    x, one = torch.ones(3, 4), torch.zeros(1, 3, dtype=torch.int32)
    for given, text in (
        ((x, one, one[:, :2], x[0, :1]), "end must have shape"),
        (
            (x, one[:, :2], one[:, :2], x[0, :1]),
            "start must have a range for each of the 3",
        ),
        ((x, one, one, torch.ones(1, dtype=torch.int8)), "value must be float32"),
        ((x, one, one, x[0, :1], 2), "axis must be from -2 to 1"),
    ):
        with pytest.raises(RuntimeError, match=f"npu_masked_fill_range: {text}"):
            torch_npu.npu_masked_fill_range(*given)
    with pytest.raises(RuntimeError, match="seq_len must have shape"):
        torch_npu.npu_normalize_batch(x.view(3, 2, 2), one[0, :2])
    with pytest.raises(RuntimeError, match="search_step must be above 0"):
        torch_npu.npu_ifmr(x, x[0, :1], x[0, :1], one[0], 0.9, 0.9, 0.7, 1.3, 0.0, True)
