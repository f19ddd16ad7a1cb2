"""Spells dtypes, shapes and strides of tensors as the graph description does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from .symbols import Expr, Unsupported, integer, where_not_empty

DTYPES: dict[torch.dtype, str] = {
    torch.bool: "bool",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.complex32: "c32",
    torch.complex64: "c64",
    torch.complex128: "c128",
    torch.float8_e4m3fn: "f8e4m3fn",
    torch.float8_e5m2: "f8e5m2",
    torch.float8_e4m3fnuz: "f8e4m3fnuz",
    torch.float8_e5m2fnuz: "f8e5m2fnuz",
}


MOST_DIMENSIONS = 64  # the maximum that NumPy and PyTorch's iterators have


def dtype_name(dtype: torch.dtype) -> str:
    if dtype not in DTYPES:
        raise Unsupported(f"{dtype} has no description")
    return DTYPES[dtype]


def is_scales(node: torch.fx.Node) -> bool:
    """Whether a node has scales of float8_e8m0fnu."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.float8_e8m0fnu


def bytes_of(node: torch.fx.Node, value: torch.Tensor) -> torch.Tensor:
    """The tensor of an argument or a weight, as the description names it: bytes where
    the graph reads scales as bytes alone (capture/scales)."""

    def is_view(user: torch.fx.Node) -> bool:
        into = user.target is torch.ops.aten.view.dtype and user.args[1]
        return into == torch.uint8

    if is_scales(node) and all(map(is_view, node.users)):
        return value.view(torch.uint8)
    return value


def check_plain(tensor: torch.Tensor) -> None:
    """Unsupported: the value is not a dense tensor in the CPU's memory."""
    if type(tensor) not in (FakeTensor, torch.Tensor, torch.nn.Parameter):
        raise Unsupported(f"a tensor of the class {type(tensor).__name__}")
    if tensor.device.type != "cpu":
        raise Unsupported(f"a tensor on {tensor.device}")
    if tensor.layout is not torch.strided or tensor.is_mkldnn:
        raise Unsupported(f"a tensor of layout {tensor.layout}")
    if tensor.dim() > MOST_DIMENSIONS:
        raise Unsupported(f"a tensor of {tensor.dim()} dimensions")
    if tensor.is_quantized:
        raise Unsupported("a quantised tensor")
    if tensor.is_conj() or tensor.is_neg():
        raise Unsupported("a tensor whose conjugation or negation is pending")


def describe(tensor: Any) -> dict[str, Any]:
    """The entry of a result: its dtype and shape."""
    check_plain(tensor)
    return {
        "dtype": dtype_name(tensor.dtype),
        "shape": [integer(size) for size in tensor.shape],
    }


def foreign_strides(tensor: torch.Tensor) -> list[Expr] | None:
    """The strides of a tensor that is not contiguous; None for one that is. Strides of
    dimensions of size one mean nothing, so they are given as if contiguous."""
    if any(isinstance(size, int) and size == 0 for size in tensor.shape):
        return None
    expected: Any = 1
    foreign = False
    strides: list[Expr] = []
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride())):
        if integer(size) == 1:
            stride = expected
        strides.append(integer(stride))
        foreign = foreign or strides[-1] != integer(expected)
        expected = size * stride
    return strides[::-1] if foreign else None


def memory_order(shape: Sequence[Any], strides: Sequence[Any]) -> list[int] | None:
    """The order of dimensions, slowest first, in which a tensor is contiguous; None if
    there is none."""
    todo = list(range(len(shape)))[::-1]
    order: list[int] = []
    expected: Any = 1
    while todo:
        wanted = where_not_empty(expected)
        # Dimensions of size one fit anywhere in the order.
        fits = [
            dim
            for dim in todo
            if where_not_empty(strides[dim]) == wanted or integer(shape[dim]) == 1
        ]
        if not fits:
            return None
        todo.remove(fits[0])
        order.insert(0, fits[0])
        expected = expected * shape[fits[0]]
    return order
