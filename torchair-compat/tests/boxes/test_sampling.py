"""Values between pixels equal loops in float64, and the examples of their pages."""

from __future__ import annotations

import math

import pytest
import torch

import torch_npu
from pictures import compiled

f32, f16, bf16 = torch.float32, torch.float16, torch.bfloat16


def between(image, row, column):
    """Of a matrix in float64: 0 outside."""
    top, left = math.floor(row), math.floor(column)
    total = 0.0
    for y, across in ((top, 1 - (row - top)), (top + 1, row - top)):
        for x, along in ((left, 1 - (column - left)), (left + 1, column - left)):
            if 0 <= y < image.shape[0] and 0 <= x < image.shape[1]:
                total += across * along * float(image[y, x])
    return total


def aligned(image, box, scale, cells, number, mode):
    """One channel of one box."""
    left, top, right, bottom = (float(v) for v in box)
    shift, more = (0.5 if mode > 1 else 0), (1 if mode == 1 else 0)
    start = [top * scale - shift, left * scale - shift]
    size = [
        (bottom + more) * scale - shift - start[0],
        (right + more) * scale - shift - start[1],
    ]
    size = size if mode == 2 else [max(s, 1.0) for s in size]
    counts = [number or max(math.ceil(s / c), 0) for s, c in zip(size, cells)]
    made = torch.zeros(cells, dtype=torch.float64)
    for i in range(cells[0]):
        for j in range(cells[1]):
            for a in range(counts[0]):
                for b in range(counts[1]):
                    y = start[0] + size[0] * (i + (a + 0.5) / counts[0]) / cells[0]
                    x = start[1] + size[1] * (j + (b + 0.5) / counts[1]) / cells[1]
                    limits = image.shape
                    if -1 <= y <= limits[0] and -1 <= x <= limits[1]:
                        y = min(max(y, 0), limits[0] - 1)
                        x = min(max(x, 0), limits[1] - 1)
                        made[i, j] += between(image, y, x) / counts[0] / counts[1]
    return made


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize(("dtype", "number"), [(f32, 0), (f32, 2), (f16, 2), (bf16, 0)])
def test_roi_align(dtype, number, mode) -> None:
    image = torch.randn(2, 2, 7, 9).to(dtype)
    rois = torch.tensor(
        [[0, 1, 2, 13, 9], [1, -6, -5, 4, 30], [1, 3, 3, 3, 3], [0, 4, 0, 17, 12]]
    ).to(dtype)

    def function(image, rois):
        return torch_npu.npu_roi_align(image, rois, 0.5, 2, 3, number, mode)

    wanted = torch.stack(
        [
            torch.stack(
                [
                    aligned(channel, row[1:], 0.5, (2, 3), number, mode)
                    for channel in image[int(row[0])].double()
                ]
            )
            for row in rois
        ]
    )
    for run in (function, compiled(function)):
        made = run(image, rois)
        assert made.dtype == dtype
        torch.testing.assert_close(made, wanted.to(dtype), atol=2e-3, rtol=2e-2)
    if dtype == f32:
        torch.testing.assert_close(
            function(image, rois).double(), wanted, atol=1e-5, rtol=1e-5
        )


@pytest.mark.parametrize("number", [0, 2])
def test_roi_align_of_symbolic_sizes(number) -> None:
    def function(image, rois):
        return torch_npu.npu_roi_align(image, rois, 0.5, 2, 2, number, 1)

    run = compiled(function, dynamic=True)
    for boxes, width in ((2, 9), (5, 6)):
        image = torch.randn(2, 3, 7, width)
        rois = torch.cat([torch.zeros(boxes, 1), torch.rand(boxes, 4) * 12], 1)
        torch.testing.assert_close(run(image, rois), function(image, rois))


def test_example_of_roi_align() -> None:
    image = torch.arange(1.0, 37).view(1, 1, 6, 6)
    rois = torch.tensor([[0, -2.0, -2.0, 22.0, 22.0]])
    made = torch_npu.npu_roi_align(image, rois, 0.25, 3, 3, 2, 0)
    wanted = [[4.5, 6.5, 8.5], [16.5, 18.5, 20.5], [28.5, 30.5, 32.5]]
    assert made[0, 0].tolist() == wanted


def windows(x, offset, kernel, stride, padding, dilation, groups, modulated):
    n, c = x.shape[:2]
    kh, kw = kernel
    oh, ow = offset.shape[2:]
    parts = 3 if modulated else 2
    moves = offset.reshape(n, parts, groups, kh, kw, oh, ow).double()
    made = torch.zeros(n, c, oh * kh, ow * kw, dtype=torch.float64)
    for b in range(n):
        for channel in range(c):
            g = channel // (c // groups)
            for i in range(oh):
                for j in range(ow):
                    for p in range(kh):
                        for q in range(kw):
                            at = moves[b, :, g, p, q, i, j]
                            row = i * stride[2] + p * dilation[2] - padding[0]
                            column = j * stride[3] + q * dilation[3] - padding[2]
                            value = between(
                                x[b, channel], row + float(at[1]), column + float(at[0])
                            )
                            value *= float(at[2]) if modulated else 1
                            made[b, channel, i * kh + p, j * kw + q] = value
    return made


@pytest.mark.parametrize(
    ("dtype", "modulated", "groups", "moving", "stride", "dilation"),
    [
        (f32, True, 1, 1, (1, 1, 1, 1), (1, 1, 1, 1)),
        (f32, False, 2, 2, (1, 1, 2, 1), (1, 1, 1, 2)),
        (f16, True, 2, 1, (1, 1, 1, 2), (1, 1, 2, 1)),
        (bf16, True, 1, 4, (1, 1, 2, 2), (1, 1, 1, 1)),
    ],
)
def test_deformable(dtype, modulated, groups, moving, stride, dilation) -> None:
    padding, kernel = (1, 0, 2, 1), (3, 2)
    x = torch.randn(2, 4, 6, 5).to(dtype)
    weight, bias = torch.randn(6, 4 // groups, 3, 2).to(dtype), torch.randn(6).to(dtype)
    high = (6 + 1 - 2 * dilation[2] - 1) // stride[2] + 1
    wide = (5 + 3 - dilation[3] - 1) // stride[3] + 1
    parts = 3 if modulated else 2
    offset = (torch.randn(2, parts * moving * 6, high, wide) * 2).to(dtype)

    def function(x, weight, offset, bias):
        return torch_npu.npu_deformable_conv2d(
            x,
            weight,
            offset,
            bias,
            kernel,
            stride,
            padding,
            dilation,
            groups,
            moving,
            modulated,
        )

    values = windows(
        x.double(), offset, kernel, stride, padding, dilation, moving, modulated
    )
    wanted = torch.nn.functional.conv2d(
        values, weight.double(), bias.double(), kernel, groups=groups
    )
    for run in (function, compiled(function)):
        made = run(x, weight, offset, bias)
        assert [part.dtype for part in made] == [f32, f32]
        torch.testing.assert_close(made[0].double(), wanted, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(made[1].double(), values, atol=1e-4, rtol=1e-4)


def test_places_without_a_number_are_outside() -> None:
    offset = torch.zeros(1, 3, 2, 2)
    offset[0, :2, 0, 0] = torch.nan
    offset[0, 2] = 1
    x, weight = torch.ones(1, 1, 2, 2), torch.ones(1, 1, 1, 1)
    told = ([1, 1], [1, 1, 1, 1], [0, 0, 0, 0])
    made = torch_npu.npu_deformable_conv2d(x, weight, offset, None, *told)[1]
    assert made[0, 0, 1].tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [f32, f16])
def test_rotated_boxes(dtype) -> None:
    def boxes():
        first = torch.rand(2, 2, 4) * 10
        angle = torch.rand(2, 1, 4) * 160 - 80
        return torch.cat([first, first + 1 + torch.rand(2, 2, 4) * 9, angle], 1).to(
            dtype
        )

    one, other, weight = boxes(), boxes(), (torch.rand(5) + 0.5).to(dtype)

    def parts(values):
        left, top, right, bottom, angle = values.double().unbind(1)
        return (
            (left + right) / 2,
            (top + bottom) / 2,
            right - left,
            bottom - top,
            torch.tan(angle * math.pi / 180),
        )

    (x, y, w, h, t), (u, v, width, height, s) = parts(one), parts(other)
    told = [(u - x) / w, (v - y) / h, (width / w).log(), (height / h).log(), s - t]
    wanted = torch.stack(told, 1) * weight.double().view(1, 5, 1)
    for run in (
        torch_npu.npu_rotated_box_encode,
        compiled(torch_npu.npu_rotated_box_encode),
    ):
        made = run(one, other, weight)
        torch.testing.assert_close(made, wanted.to(dtype), atol=1e-3, rtol=2e-3)
    again = torch_npu.npu_rotated_box_decode(one, wanted.float(), weight)
    close = 1e-3 if dtype == f32 else 2e-2
    torch.testing.assert_close(again.double(), other.double(), atol=close, rtol=close)


def test_wrong_arguments() -> None:
    x, weight, offset = torch.ones(1, 4, 5, 5), torch.ones(2, 4, 3, 3), torch.ones(1)
    right = {
        "kernel_size": [3, 3],
        "stride": [1, 1, 1, 1],
        "padding": [0, 0, 0, 0],
    }
    moved = torch.zeros(1, 27, 3, 3)
    for given, wrong, text in (
        (offset, {}, "offset must have 4 dimensions, got 1"),
        (moved, {"stride": [1, 2, 1, 1]}, "stride must be above 0, and 1 for n and c"),
        (moved, {"padding": [0, 0]}, "padding must be 4 numbers"),
        (moved, {"padding": [0, 0, 0, -1]}, "padding must not be below 0"),
        (moved, {"groups": 3}, "groups must divide the numbers of channels"),
        (moved, {"deformable_groups": 3}, "deformable_groups must divide"),
        (moved, {"modulated": False}, "offset must have shape .1, 18, 3, 3."),
        (moved, {"kernel_size": [3, 2]}, "weight must have shape"),
    ):
        with pytest.raises(RuntimeError, match=f"npu_deformable_conv2d: {text}"):
            torch_npu.npu_deformable_conv2d(x, weight, given, None, **right | wrong)
    rois = torch.zeros(1, 5)
    for told, text in (
        ((x, rois[:, :4], 1.0, 2, 2, 2, 0), "rois must be .boxes, 5."),
        ((x[0], rois, 1.0, 2, 2, 2, 0), "self must be .n, c, h, w."),
        ((x, rois, 1.0, 2, 2, -1, 0), "sample_num must be at least 0"),
        ((x, rois, 1.0, 2, 2, 2, 4), "roi_end_mode must be 0, 1, 2 or 3"),
    ):
        with pytest.raises(RuntimeError, match=f"npu_roi_align: {text}"):
            torch_npu.npu_roi_align(*told)
    with pytest.raises(RuntimeError, match="weight must have shape .5,."):
        torch_npu.npu_rotated_box_encode(*[torch.ones(1, 5, 2)] * 2, torch.ones(4))
