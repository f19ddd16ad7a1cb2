"""Operators of PyTorch by other names of torch_npu compute what PyTorch's compute."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

import torch_npu
from pictures import compiled

X = torch.randn(2, 3, 4, 6)
LAYERS = {"stride": [2, 1], "padding": [1, 0], "dilation": [1, 2], "groups": 1}
SHAPES = {
    "npu_transpose": (([3, 0, 2, 1],), X.permute(3, 0, 2, 1)),
    "npu_reshape": (([4, -1],), X.reshape(4, -1)),
    "npu_broadcast": (([5, 2, 3, 4, 6],), X.expand(5, 2, 3, 4, 6)),
    "npu_slice": (([1, 0, 1, 2], [1, 3, 2, -1]), X[1:, :, 1:3, 2:]),
    "npu_pad": (
        ([0, 1, 2, 0, 0, 0, 1, 3],),
        functional.pad(X, (1, 3, 0, 0, 2, 0, 0, 1)),
    ),
    "npu_confusion_transpose": (
        ([0, 2, 1, 3], [2, 4, 18], True),
        X.permute(0, 2, 1, 3).reshape(2, 4, 18),
    ),
    "reverse": (([0, 2],), X.flip(0, 2)),
    "npu_sort_v2": ((-1, True), X.sort(-1, True).values),
    "npu_silu": ((), functional.silu(X)),
    "npu_mish": ((), functional.mish(X)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_values(name) -> None:
    arguments, wanted = SHAPES[name]
    made = getattr(torch_npu, name)(X, *arguments)
    torch.testing.assert_close(made, wanted)
    assert made.is_contiguous()
    assert made.data_ptr() != X.data_ptr()


def test_values_in_a_graph() -> None:
    def function(x):
        return [getattr(torch_npu, name)(x, *SHAPES[name][0]) for name in SHAPES]

    wanted = [wanted for _, wanted in SHAPES.values()]
    torch.testing.assert_close(compiled(function)(X), wanted)


def test_symbolic_sizes() -> None:
    def function(x):
        rows = x.shape[0]
        made = torch_npu.npu_reshape(x, [rows * 2, 3])
        return torch_npu.npu_broadcast(made, [2, rows * 2, 3])

    run = compiled(function, dynamic=True)
    for rows in (2, 5):
        x = torch.randn(rows, 6)
        assert torch.equal(run(x), x.reshape(rows * 2, 3).expand(2, rows * 2, 3))


@pytest.mark.parametrize("name", ["npu_transpose", "npu_slice", "npu_sort_v2"])
def test_results_in_place_of_out(name) -> None:
    arguments, wanted = SHAPES[name]
    out = torch.empty(wanted.shape)
    assert getattr(torch_npu, name)(X, *arguments, out=out) is out
    torch.testing.assert_close(out, wanted)


def test_the_other_order_of_confusion_transpose() -> None:
    made = torch_npu.npu_confusion_transpose(X, [0, 2, 1], [2, 12, 6], False)
    assert torch.equal(made, X.reshape(2, 12, 6).permute(0, 2, 1))


def test_extremes() -> None:
    for name, wanted in (("npu_max", X.max(1, True)), ("npu_min", X.min(1, True))):
        values, places = getattr(torch_npu, name)(X, 1, keepdim=True)
        assert torch.equal(values, wanted.values)
        assert places.dtype == torch.int32
        assert torch.equal(places.long(), wanted.indices)


def test_one_hot() -> None:
    classes = torch.tensor([5, 3, 2, 1], dtype=torch.int32)
    wanted = functional.one_hot(classes.long(), 6)[:, :5].float()
    assert torch.equal(torch_npu.npu_one_hot(classes, depth=5), wanted)
    made = torch_npu.npu_one_hot(classes, 0, 5, 2.5, -1)
    assert torch.equal(made, (wanted * 3.5 - 1).t())


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_sign_bits(dtype) -> None:
    x = torch.tensor([5, 4, 3, 2, 0, -1, -2, 4, 3, 2, 1, 0, -1, -2], dtype=dtype)
    packed = torch_npu.npu_sign_bits_pack(x, 2)
    wanted = np.packbits(x.numpy() >= 0, bitorder="little")
    assert packed.dtype == torch.uint8
    assert packed.flatten().tolist() == wanted.tolist()
    signs = torch_npu.npu_sign_bits_unpack(packed.flatten(), 1, dtype)
    assert signs.dtype == dtype
    wide = np.unpackbits(wanted, bitorder="little").astype(float) * 2 - 1
    assert signs.tolist() == [wide.tolist()]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_softmax(dtype) -> None:
    x, mask = torch.randn(3, 2, 4, 8).to(dtype), torch.rand(4, 8) < 0.5
    mask[1] = True
    wanted = (x.double() * 0.5).masked_fill(mask, -10000).softmax(-1).to(dtype)
    made = torch_npu.npu_scaled_masked_softmax(x, mask, 0.5)
    torch.testing.assert_close(made, wanted)
    rows, labels = torch.randn(3, 7).to(dtype), torch.rand(3, 7).to(dtype)
    logs = rows.double().log_softmax(-1)
    wanted = -(labels.double() * logs).sum(-1).to(dtype)
    made = torch_npu.npu_softmax_cross_entropy_with_logits(rows, labels)
    torch.testing.assert_close(made, wanted)


def test_layers() -> None:
    x, w, b = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5)
    assert torch.equal(torch_npu.npu_linear(x, w, b), functional.linear(x, w, b))
    a, m = torch.randn(2, 1, 3, 4), torch.randn(6, 4, 5)
    assert torch.equal(torch_npu.npu_bmmV2(a, m, []), a @ m)
    assert torch.equal(torch_npu.npu_bmmV2(a, m, [36, 5]), (a @ m).reshape(36, 5))
    images, filters = torch.randn(2, 3, 9, 8), torch.randn(4, 3, 3, 2)
    wanted = functional.conv2d(images, filters, None, **LAYERS)
    for name in ("npu_conv2d", "npu_convolution"):
        made = getattr(torch_npu, name)(images, filters, None, **LAYERS)
        torch.testing.assert_close(made, wanted)
    volumes, filters = torch.randn(1, 2, 4, 5, 6), torch.randn(3, 2, 2, 3, 3)
    told = [1, 2, 1], [0, 1, 1], [1, 1, 2], 1
    for name in ("npu_conv3d", "npu_convolution"):
        made = getattr(torch_npu, name)(volumes, filters, None, *told)
        torch.testing.assert_close(
            made, functional.conv3d(volumes, filters, None, *told)
        )


def test_transposed_convolutions() -> None:
    images, filters, bias = (
        torch.randn(2, 3, 5, 6),
        torch.randn(3, 4, 3, 2),
        torch.randn(4),
    )
    told = {"padding": [1, 0], "output_padding": [1, 0], "stride": [2, 1]}
    told |= {"dilation": [1, 2], "groups": 1}
    wanted = functional.conv_transpose2d(images, filters, bias, **told)
    for name in ("npu_conv_transpose2d", "npu_convolution_transpose"):
        made = getattr(torch_npu, name)(images, filters, bias, **told)
        torch.testing.assert_close(made, wanted)


def test_in_place() -> None:
    x = X.clone()
    assert torch_npu.npu_silu_(x) is x
    torch.testing.assert_close(x, functional.silu(X))
    assert torch_npu.one_(x) is x
    assert torch.equal(x, torch.ones_like(X))
    index, source = torch.tensor([1, 1, 0]), torch.randn(3, 3, 4, 6)
    wanted = X.index_add(0, index, source, alpha=2)
    assert torch.equal(torch_npu._npu_index_add(X, index, source, alpha=2), wanted)
    x = X.clone()
    torch_npu._npu_index_add_(x, index, source, alpha=2)
    assert torch.equal(x, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_copies_by_steps(dtype) -> None:
    x = X.to(dtype)

    def function(x):
        made = torch_npu.npu_stride_copy(x, [3, 4], [24, 2], 5)
        target = torch.zeros(4, 3, dtype=torch.float64)
        torch_npu.npu_view_copy(target.t(), made, False)
        return made, target

    wanted = x.as_strided((3, 4), (24, 2), 5)
    for run in (function, compiled(function)):
        made, target = run(x)
        assert made.is_contiguous()
        assert torch.equal(made, wanted)
        assert torch.equal(target, wanted.double().t())
    out = torch.empty(3, 4, dtype=dtype)
    made = torch_npu.npu_stride_copy(x, [3, 4], [24, 2], 5, out=out)
    assert made is out
    assert torch.equal(out, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_sums_of_channels(dtype) -> None:
    x = X.to(dtype)
    wide = x.double()
    wanted = wide.sum((0, 2, 3)), wide.square().sum((0, 2, 3))
    for run in (torch_npu.batch_norm_reduce, compiled(torch_npu.batch_norm_reduce)):
        for made, right in zip(run(x, 1e-5), wanted):
            assert made.dtype == torch.float32
            torch.testing.assert_close(made.double(), right, atol=1e-4, rtol=1e-5)


WRONG = {
    "stride must have 2 numbers, got 1": ("npu_stride_copy", [2, 2], [1], 0),
    "must not be below 0, got .-1. and 0": ("npu_stride_copy", [2], [-1], 0),
    "perm must order 4 dimensions": ("npu_transpose", [0, 1]),
    "offsets must have 4 numbers": ("npu_slice", [0], [1]),
    "do not fit dimension 0 of 2": ("npu_slice", [1, 0, 0, 0], [2, 1, 1, 1]),
    "paddings must have 8 numbers, none negative": ("npu_pad", [1, -1]),
    "dim must be the last": ("npu_sort_v2", 0),
    "dim must be from -4 to 3, got 4": ("npu_max", 4),
    "self must be int32, int64": ("npu_one_hot", -1, 3),
    "self must have 1 dimension": ("npu_sign_bits_pack", 2),
    "weight must have 4 dimensions": ("npu_conv2d", X[0], None, [1], [0], [1], 1),
    "mask must be bool": ("npu_scaled_masked_softmax", X),
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_arguments(text) -> None:
    name, *arguments = WRONG[text]
    with pytest.raises(RuntimeError, match=f"{name}: .*{text}"):
        getattr(torch_npu, name)(X, *arguments)
