"""The IR operators that this host computes, as functions of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .definitions import operator
from .types import dtype_of

__all__: list[str] = []

_UNARY = {
    "Abs": torch.abs,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "HardSwish": functional.hardswish,
    "Identity": torch.clone,
    "IsFinite": torch.isfinite,
    "IsInf": torch.isinf,
    "IsNan": torch.isnan,
    "LogicalNot": torch.logical_not,
    "Mish": functional.mish,
    "Neg": torch.neg,
    "OnesLike": torch.ones_like,
    "Reciprocal": torch.reciprocal,
    "Relu": torch.relu,
    "Round": torch.round,
    "Rsqrt": torch.rsqrt,
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sqrt": torch.sqrt,
    "Square": torch.square,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
    "TensorMove": torch.clone,
    "ZerosLike": torch.zeros_like,
}

_BINARY = {
    "Add": torch.add,
    "AddV2": torch.add,
    "Atan2": torch.atan2,
    "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
    "Equal": torch.eq,
    "FloorDiv": torch.floor_divide,
    "FloorMod": torch.remainder,
    "Greater": torch.gt,
    "GreaterEqual": torch.ge,
    "Less": torch.lt,
    "LessEqual": torch.le,
    "LogicalAnd": torch.logical_and,
    "LogicalOr": torch.logical_or,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "Mod": torch.fmod,
    "Mul": torch.mul,
    "NotEqual": torch.ne,
    "Pow": torch.pow,
    "Sub": torch.sub,
}


def _register_elementwise() -> None:
    def unary(function: Callable[..., Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda x: function(x)

    def binary(function: Callable[..., Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
        return lambda x1, x2: function(x1, x2)

    for name, function in _UNARY.items():
        operator(name)(unary(function))
    for name, function in _BINARY.items():
        operator(name)(binary(function))


_register_elementwise()


@operator("AddCustom", names=("x", "y"))
def _add_custom(x: Tensor, y: Tensor) -> Tensor:
    """The operator of Ascend's samples for users' own operators."""
    return x + y


@operator("Div", "RealDiv")
def _div(x1: Tensor, x2: Tensor) -> Tensor:
    """The quotient; of integers, rounded to zero."""
    exact = x1.is_floating_point() or x1.is_complex()
    return torch.div(x1, x2, rounding_mode=None if exact else "trunc")


@operator("SquaredDifference")
def _squared_difference(x1: Tensor, x2: Tensor) -> Tensor:
    return (x1 - x2).square()


@operator("AddN")
def _add_n(x: Sequence[Tensor], *, N: int | None = None) -> Tensor:
    total = x[0]
    for part in x[1:]:
        total = total + part
    return total


@operator("Axpy")
def _axpy(x1: Tensor, x2: Tensor, *, alpha: float) -> Tensor:
    return x1 + alpha * x2


@operator("Muls")
def _muls(x: Tensor, *, value: float) -> Tensor:
    return x * value


@operator("Adds")
def _adds(x: Tensor, *, value: float) -> Tensor:
    return x + value


@operator("ClipByValue", names=("x", "clip_value_min", "clip_value_max"))
def _clip(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(x, low), high)


@operator("Gelu")
def _gelu(x: Tensor) -> Tensor:
    return functional.gelu(x, approximate="tanh")


@operator("GeluV2")
def _gelu_v2(x: Tensor, *, approximate: str = "none") -> Tensor:
    return functional.gelu(x, approximate=approximate)


@operator("LeakyRelu")
def _leaky_relu(x: Tensor, *, negative_slope: float = 0.0) -> Tensor:
    return functional.leaky_relu(x, negative_slope)


@operator("Swish")
def _swish(x: Tensor, *, scale: float = 1.0) -> Tensor:
    return x * torch.sigmoid(scale * x)


@operator("SwiGlu")
def _swi_glu(x: Tensor, *, dim: int = -1) -> Tensor:
    return torch.ops.npu.npu_swiglu(x, dim)


@operator("SoftmaxV2")
def _softmax(
    x: Tensor, *, axes: Sequence[int] = (-1,), half_to_float: bool = False
) -> Tensor:
    """The softmax over all of the axes together."""
    wide = x.float() if half_to_float else x
    if len(axes) == 1:
        return torch.softmax(wide, axes[0])
    shifted = (wide - wide.amax(list(axes), keepdim=True)).exp()
    return shifted / shifted.sum(list(axes), keepdim=True)


@operator("RmsNorm", outputs=2)
def _rms_norm(
    x: Tensor, gamma: Tensor, *, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor]:
    y, rstd = torch.ops.npu.npu_rms_norm(x, gamma, epsilon)
    return y, rstd


@operator("AddRmsNorm", outputs=3)
def _add_rms_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor, *, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    y, rstd, total = torch.ops.npu.npu_add_rms_norm(x1, x2, gamma, epsilon)
    return y, rstd, total


@operator("MatMul", "MatMulV2")
def _matmul(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None = None,
    offset_w: Tensor | None = None,
    *,
    transpose_x1: bool = False,
    transpose_x2: bool = False,
    offset_x: int = 0,
) -> Tensor:
    return _product(x1, x2, bias, transpose_x1, transpose_x2, (offset_w, offset_x))


@operator("BatchMatMul", "BatchMatMulV2")
def _batch_matmul(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None = None,
    offset_w: Tensor | None = None,
    *,
    adj_x1: bool = False,
    adj_x2: bool = False,
    offset_x: int = 0,
) -> Tensor:
    return _product(x1, x2, bias, adj_x1, adj_x2, (offset_w, offset_x))


def _product(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None,
    transposes_x1: bool,
    transposes_x2: bool,
    offsets: tuple[Tensor | None, int],
) -> Tensor:
    if offsets != (None, 0):
        raise NotImplementedError("products with offsets are not computed on this host")
    left = x1.mT if transposes_x1 else x1
    right = x2.mT if transposes_x2 else x2
    product = left @ right
    return product if bias is None else product + bias


# Shapes


@operator("Cast")
def _cast(x: Tensor, *, dst_type: int) -> Tensor:
    return x.to(dtype_of(dst_type), copy=True)


@operator("Bitcast")
def _bitcast(x: Tensor, *, type: int) -> Tensor:
    return x.view(dtype_of(type)).clone()


@operator("Transpose", "TransposeD", constants=("perm",))
def _transpose(x: Tensor, perm: Sequence[int]) -> Tensor:
    return x.permute(list(perm))


@operator("Reshape", constants=("shape",))
def _reshape(
    x: Tensor, shape: Sequence[int], *, axis: int = 0, num_axes: int = -1
) -> Tensor:
    """Reshapes only `num_axes` axes, from `axis` on."""
    first = axis if axis >= 0 else x.dim() + 1 + axis
    end = x.dim() if num_axes < 0 else first + num_axes
    return x.reshape([*x.shape[:first], *shape, *x.shape[end:]])


@operator("Squeeze")
def _squeeze(x: Tensor, *, axis: Sequence[int] = ()) -> Tensor:
    return x.squeeze(tuple(axis)) if axis else x.squeeze()


@operator("Unsqueeze")
def _unsqueeze(x: Tensor, *, axes: Sequence[int]) -> Tensor:
    rank = x.dim() + len(axes)
    for place in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(place)
    return x


@operator("ExpandDims", constants=("axis",))
def _expand_dims(x: Tensor, axis: Any) -> Tensor:
    return x.unsqueeze(_single(axis))


@operator("BroadcastTo", constants=("shape",))
def _broadcast_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    return x.broadcast_to(list(shape))


@operator("Tile", constants=("multiples",))
def _tile(x: Tensor, multiples: Sequence[int]) -> Tensor:
    return x.tile(list(multiples))


@operator("Slice", constants=("offsets", "size"))
def _slice(x: Tensor, offsets: Sequence[int], size: Sequence[int]) -> Tensor:
    """A slice; a size of -1 is the rest of the dimension."""
    for axis, (start, length) in enumerate(zip(offsets, size)):
        rest = x.shape[axis] - start
        x = x.narrow(axis, start, rest if length == -1 else length)
    return x


@operator("ConcatD")
def _concat_d(x: Sequence[Tensor], *, concat_dim: int, N: int | None = None) -> Tensor:
    return torch.cat(list(x), concat_dim)


@operator("ConcatV2", constants=("concat_dim",))
def _concat_v2(x: Sequence[Tensor], concat_dim: Any, *, N: int | None = None) -> Tensor:
    return torch.cat(list(x), _single(concat_dim))


@operator("Pack")
def _pack(x: Sequence[Tensor], *, axis: int = 0, N: int | None = None) -> Tensor:
    return torch.stack(list(x), axis)


@operator("SplitD")
def _split_d(x: Tensor, *, split_dim: int, num_split: int) -> tuple[list[Tensor]]:
    return (list(x.chunk(num_split, split_dim)),)


@operator("Split", constants=("split_dim",))
def _split(split_dim: Any, x: Tensor, *, num_split: int) -> tuple[list[Tensor]]:
    return (list(x.chunk(num_split, _single(split_dim))),)


@operator("Fill", constants=("dims",))
def _fill(dims: Sequence[int], value: Any) -> Tensor:
    return torch.as_tensor(value).expand(list(dims)).clone()


@operator("Empty", constants=("shape",))
def _empty(shape: Any, *, dtype: int = 0, init: bool = False) -> Tensor:
    """Zeros, whether or not `init` asks for them: no memory is read before it is written."""
    return torch.zeros(list(_several(shape)), dtype=dtype_of(dtype))


@operator("GatherV2", constants=("axis",))
def _gather(x: Tensor, indices: Tensor, axis: Any, *, batch_dims: int = 0) -> Tensor:
    if batch_dims:
        raise NotImplementedError("GatherV2 with batch_dims is not computed here")
    place = _single(axis) % x.dim()
    found = x.index_select(place, indices.reshape(-1))
    return found.reshape([*x.shape[:place], *indices.shape, *x.shape[place + 1 :]])


@operator("Select", names=("condition", "x1", "x2"))
@operator("SelectV2", names=("condition", "then", "else"))
def _select(condition: Tensor, then: Tensor, other: Tensor) -> Tensor:
    return torch.where(condition, then, other)


# Operators that write to an input


@operator("Assign", writes="ref")
def _assign(ref: Tensor, value: Tensor, *, validate_shape: bool = True) -> Tensor:
    return value.expand(ref.shape)


@operator("AssignAdd", writes="ref")
def _assign_add(ref: Tensor, value: Tensor, *, use_locking: bool = False) -> Tensor:
    return ref + value


@operator("AssignSub", writes="ref")
def _assign_sub(ref: Tensor, value: Tensor, *, use_locking: bool = False) -> Tensor:
    return ref - value


@operator("ScatterUpdate", writes="var")
def _scatter_update(
    var: Tensor, indices: Tensor, updates: Tensor, *, use_locking: bool = False
) -> Tensor:
    rows = updates.reshape(-1, *var.shape[1:])
    return var.index_copy(0, indices.reshape(-1).to(torch.int64), rows)


@operator("ScatterAdd", writes="var")
def _scatter_add(
    var: Tensor, indices: Tensor, updates: Tensor, *, use_locking: bool = False
) -> Tensor:
    rows = updates.reshape(-1, *var.shape[1:])
    return var.index_add(0, indices.reshape(-1).to(torch.int64), rows)


@operator("ScatterNdUpdate", writes="var")
def _scatter_nd_update(
    var: Tensor, indices: Tensor, updates: Tensor, *, use_locking: bool = False
) -> Tensor:
    return var.index_put(indices.to(torch.int64).unbind(-1), updates)


# Reductions


def _register_reductions() -> None:
    kinds: dict[str, Callable[..., Tensor]] = {
        "ReduceSum": lambda x, axes, keep: x.sum(axes, keepdim=keep, dtype=x.dtype),
        "ReduceMean": lambda x, axes, keep: x.mean(axes, keepdim=keep),
        "ReduceMax": lambda x, axes, keep: x.amax(axes, keepdim=keep),
        "ReduceMin": lambda x, axes, keep: x.amin(axes, keepdim=keep),
    }
    for name, function in kinds.items():
        _register_reduction(name, function)


def _register_reduction(name: str, function: Callable[..., Tensor]) -> None:
    @operator(name, constants=("axes",))
    def reduce(x: Tensor, axes: Any, *, keep_dims: bool = False) -> Tensor:
        return function(x, [*_several(axes)], keep_dims)

    @operator(f"{name}D")
    def reduce_d(x: Tensor, *, axes: Any, keep_dims: bool = False) -> Tensor:
        return function(x, [*_several(axes)], keep_dims)


_register_reductions()


@operator("Cumsum", constants=("axis",))
def _cumsum(
    x: Tensor, axis: Any, *, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    place = _single(axis)
    flipped = x.flip(place) if reverse else x
    total = flipped.cumsum(place, dtype=x.dtype)
    total = total - flipped if exclusive else total
    return total.flip(place) if reverse else total


@operator("ArgMaxV2", constants=("dimension",))
def _arg_max(x: Tensor, dimension: Any, *, dtype: int = 9) -> Tensor:
    return x.argmax(_single(dimension)).to(dtype_of(dtype))


def _single(value: Any) -> int:
    (found,) = _several(value)
    return found


def _several(value: Any) -> Sequence[int]:
    return value if isinstance(value, list | tuple) else [value]
