"""Passes NumPy arrays to packages and back. Imports NumPy or PyTorch only when an array
or a tensor is passed."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

_NUMPY = {
    "bool": "bool",
    "u8": "uint8",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "c64": "complex64",
    "c128": "complex128",
}
# Dtypes that NumPy has with the package ml_dtypes. Arrays of these are passed as
# integers of the same size.
_EXTENSIONS = {
    "bf16": ("bfloat16", "uint16"),
    "f8e4m3fn": ("float8_e4m3fn", "uint8"),
    "f8e5m2": ("float8_e5m2", "uint8"),
    "f8e4m3fnuz": ("float8_e4m3fnuz", "uint8"),
    "f8e5m2fnuz": ("float8_e5m2fnuz", "uint8"),
}
_NAMES = {numpy: ours for ours, numpy in _NUMPY.items()}
_EXTENSION_NAMES = {numpy: ours for ours, (numpy, _) in _EXTENSIONS.items()}


def _carrier(dtype: str) -> Any:
    """The NumPy dtype that carries a package's dtype, without ml_dtypes."""
    import numpy

    if dtype in _EXTENSIONS:
        return numpy.dtype(_EXTENSIONS[dtype][1])
    if dtype not in _NUMPY:
        raise TypeError(f"NumPy has no arrays of {dtype}: pass tensors")
    return numpy.dtype(_NUMPY[dtype])


@functools.cache
def _extension(dtype: str) -> Any:
    import numpy

    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            f"NumPy has no {_EXTENSIONS[dtype][0]}: install ml_dtypes, or pass tensors"
        ) from None
    return numpy.dtype(getattr(ml_dtypes, _EXTENSIONS[dtype][0]))


def plain(memory: Any, dtype: str, shape: Sequence[int]) -> Any:
    """An array over memory. Where NumPy lacks the dtype, it has integers of the same
    size."""
    import numpy

    return numpy.ndarray(tuple(shape), _carrier(dtype), buffer=memory)


def from_memory(memory: Any, dtype: str, shape: Sequence[int]) -> Any:
    return finish(plain(memory, dtype, shape), dtype)


def finish(array: Any, dtype: str) -> Any:
    """The array with the dtype that the user knows. Other objects stay as they are."""
    if dtype not in _EXTENSIONS or not hasattr(array, "view"):
        return array
    return array.view(_extension(dtype))


def read(value: Any, info: Mapping[str, Any]) -> tuple[Any, str]:
    """The array in the layout that the program needs, and its dtype."""
    import numpy

    if not isinstance(value, numpy.ndarray):
        kind = "an int" if info["scalar"] else "an array"
        raise TypeError(f"{info['name']}: expected {kind}, got {type(value).__name__}")
    name = value.dtype.name
    dtype = _NAMES.get(name) or _EXTENSION_NAMES.get(name)
    if dtype is None or not value.dtype.isnative:
        raise TypeError(f"{info['name']}: no program takes arrays of {value.dtype}")
    if info["mutated"] and not value.flags.writeable:
        raise ValueError(f"{info['name']} is written in place and is read-only")
    if name in _EXTENSION_NAMES:
        value = value.view(_carrier(dtype))
    steps = [step // value.itemsize for step in value.strides]
    if info["scalar"] or _has_strides(value.shape, steps, info["strides"]):
        return value, dtype
    _refuse_copy(info)
    return _laid_out(value, info["strides"]), dtype


def lay_out(tensor: Any, info: Mapping[str, Any]) -> Any:
    """A tensor in the layout that the program needs. The runtime checks other objects."""
    if info["scalar"] or not hasattr(tensor, "stride"):
        return tensor
    if _has_strides(tensor.shape, tensor.stride(), info["strides"]):
        return tensor
    _refuse_copy(info)
    if len(info["strides"]) != tensor.dim():
        return tensor
    wanted = info["strides"]
    if _is_dense(tensor.shape, wanted):
        return tensor.contiguous()
    return (
        tensor.new_empty(0)
        .new_empty_strided(tuple(tensor.shape), tuple(wanted))
        .copy_(tensor)
    )


def _refuse_copy(info: Mapping[str, Any]) -> None:
    if info["mutated"]:
        raise ValueError(
            f"{info['name']} is written in place and must have the strides "
            f"{info['strides']}"
        )


def _has_strides(
    shape: Sequence[int], steps: Sequence[int], wanted: Sequence[int]
) -> bool:
    """Whether the strides are the wanted ones. A wanted stride of -1 means that of a
    contiguous tensor."""
    if len(shape) != len(wanted):
        return True  # another rank, which the runtime refuses
    dense = _contiguous_strides(shape)
    return all(
        size <= 1 or step == (dense_step if want < 0 else want)
        for size, step, want, dense_step in zip(shape, steps, wanted, dense)
    )


def _is_dense(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    return _has_strides(shape, _contiguous_strides(shape), wanted)


def _contiguous_strides(shape: Sequence[int]) -> list[int]:
    steps = itertools.accumulate(
        (max(size, 1) for size in reversed(shape[1:])), operator.mul, initial=1
    )
    return list(steps)[::-1]


def _laid_out(value: Any, wanted: Sequence[int]) -> Any:
    import numpy

    if len(wanted) != value.ndim or _is_dense(value.shape, wanted):
        return numpy.ascontiguousarray(value)
    copy = _strided(value.shape, wanted, value.dtype)
    copy[...] = value
    return copy


def _strided(shape: Sequence[int], strides: Sequence[int], dtype: Any) -> Any:
    import numpy

    extent = 1 + sum((size - 1) * step for size, step in zip(shape, strides))
    memory = numpy.empty(extent if min(shape, default=1) > 0 else 0, dtype)
    steps = [step * memory.itemsize for step in strides]
    return numpy.lib.stride_tricks.as_strided(memory, shape, steps)


def make(dtype: str, shape: Sequence[int], strides: Sequence[int] | None) -> Any:
    """A new array for a result."""
    import numpy

    if dtype in _EXTENSIONS:
        _extension(dtype)  # an error without ml_dtypes: the result could not be read
    carrier = _carrier(dtype)
    if strides is None or _is_dense(shape, strides):
        return numpy.empty(shape, carrier)
    return _strided(shape, strides, carrier)
