"""Calls the C API of libanabranch_runtime (anabranch.h) through ctypes."""

from __future__ import annotations

import ctypes
import functools
import os
import weakref
from collections.abc import Callable, Sequence
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_void_p
from typing import Any

# Exceptions by enum anabranch_status_code. Other codes become RuntimeError.
_ERRORS: dict[int, type[Exception]] = {
    1: ValueError,
    2: TypeError,
    3: IndexError,
    5: MemoryError,
    9: OSError,
}
# The values of enum anabranch_output_kind, in order.
_KINDS = ("tensor", "alias", "scalar", "none")


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("rank", c_int32),
        ("dtype", c_int32),
    ]


class _Input(ctypes.Structure):
    _fields_ = [("kind", c_int32), ("tensor", _Tensor), ("scalar", c_int64)]


class _Output(ctypes.Structure):
    _fields_ = [
        ("kind", c_int32),
        ("input", c_int32),
        ("scalar", c_int64),
        ("tensor", _Tensor),
    ]


class _OpenOptions(ctypes.Structure):
    _fields_ = [
        ("device", c_char_p),
        ("threads", c_int32),
        ("skip_hashes", c_int32),
        ("target", c_char_p),
        ("trust", c_char_p),
    ]


class _ValueInfo(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("kind", c_int32),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("mutated", c_int32),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("initial", c_void_p),
    ]


_Allocate = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_size_t, POINTER(_Tensor))

# The types of the functions: of the result, then of the arguments. A test compares these
# and the structures above with anabranch.h.
_INFO = (c_void_p, c_void_p, c_size_t, POINTER(_ValueInfo))
_CALL = (c_void_p, POINTER(_Input), c_size_t, POINTER(_Output), c_size_t, _Allocate)
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "open": (c_void_p, c_char_p, POINTER(_OpenOptions), POINTER(c_void_p)),
    "close": (None, c_void_p),
    "input_count": (c_size_t, c_void_p),
    "output_count": (c_size_t, c_void_p),
    "describe_input": _INFO,
    "describe_output": _INFO,
    "target": (c_char_p, c_void_p),
    "dtype_name": (c_char_p, c_int32),
    "item_size": (c_size_t, c_int32),
    "run": (c_void_p, *_CALL, c_void_p),
    "status_code_of": (ctypes.c_int, c_void_p),
    "status_message": (c_char_p, c_void_p),
    "status_free": (None, c_void_p),
    "set_default_threads": (None, c_int32),
    "version": (c_char_p,),
}
STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "tensor": _Tensor,
    "input": _Input,
    "output": _Output,
    "open_options": _OpenOptions,
    "value_info": _ValueInfo,
}


@functools.cache
def library() -> Any:
    """The library beside this file, with the types of its functions."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
    found = ctypes.CDLL(os.path.join(folder, "libanabranch_runtime.so"))
    for name, (result, *arguments) in FUNCTIONS.items():
        function = getattr(found, f"anabranch_{name}")
        function.restype, function.argtypes = result, arguments
    return found


def _check(status: int | None) -> None:
    """Raises the error that a status has."""
    if not status:
        return
    known = library()
    kind = _ERRORS.get(known.anabranch_status_code_of(status), RuntimeError)
    message = known.anabranch_status_message(status).decode()
    known.anabranch_status_free(status)
    raise kind(message)


@functools.cache
def _dtypes() -> dict[str, int]:
    """The number of each dtype, by its short name."""
    numbers = range(256)
    names = [library().anabranch_dtype_name(number) for number in numbers]
    return {name.decode(): number for number, name in enumerate(names) if name}


@functools.cache
def _numbers(rank: int) -> Any:
    """The ctypes array for `rank` sizes."""
    return c_int64 * rank


class Executable:
    """An open package, called through the C API. Any number of threads may call one."""

    def __init__(
        self,
        path: str,
        threads: int,
        check_hashes: bool,
        target: str | None,
        trust: str | None,
    ) -> None:
        known = library()
        self._handle = c_void_p()
        names = [name.encode() if name else None for name in (target, trust)]
        options = _OpenOptions(None, threads, not check_hashes, *names)
        _check(known.anabranch_open(os.fsencode(path), options, byref(self._handle)))
        weakref.finalize(self, known.anabranch_close, self._handle)
        self.target: str = known.anabranch_target(self._handle).decode()
        self._initial: dict[int, tuple[int, int]] = {}
        count = known.anabranch_input_count(self._handle)
        self.inputs = [self._describe("input", number) for number in range(count)]
        count = known.anabranch_output_count(self._handle)
        self.outputs = [self._describe("output", number) for number in range(count)]

    def _describe(self, what: str, number: int) -> dict[str, Any]:
        info = _ValueInfo()
        describe = getattr(library(), f"anabranch_describe_{what}")
        _check(describe(self._handle, number, byref(info)))
        names = _dtype_names()
        found = {
            "name": info.name.decode(),
            "dtype": names[info.dtype],
            "shape": info.shape[: info.rank],
            "strides": info.strides[: info.rank],
        }
        if what == "output":
            return found | {"kind": _KINDS[info.kind]}
        if info.initial:
            size = library().anabranch_item_size(info.dtype)
            for length in found["shape"]:
                size *= length
            self._initial[number] = (info.initial, size)
        return found | {
            "scalar": info.kind == 1,
            "mutated": bool(info.mutated),
            "state": bool(info.initial),
        }

    def initial(self, input: int) -> bytearray | None:
        """A copy of the first value of a state; None for an input that is no state."""
        if input not in self._initial:
            return None
        address, size = self._initial[input]
        return bytearray(ctypes.string_at(address, size))

    def run_arrays(self, inputs: Sequence[Any], make: Callable[..., Any]) -> list[Any]:
        """Runs the program. An input is an int or (array, dtype). `make(dtype, shape,
        strides)` makes the arrays of results."""
        count = len(self.inputs)
        if len(inputs) != count:
            raise TypeError(f"expected {count} inputs, got {len(inputs)}")
        given = (_Input * count)()
        for place, value in zip(given, inputs):
            _fill(place, value)
        results = _Results(make, len(self.outputs))
        status = library().anabranch_run(
            self._handle,
            given,
            count,
            results.outputs,
            len(self.outputs),
            results.callback,
            None,
        )
        if results.error is not None:
            library().anabranch_status_free(status)
            raise results.error
        _check(status)
        return results.objects(inputs)


def _fill(place: _Input, value: Any) -> None:
    if not isinstance(value, tuple):
        place.kind, place.scalar = 1, value
        return
    array, dtype = value
    _fill_tensor(place.tensor, array, _dtypes()[dtype])


def _fill_tensor(tensor: _Tensor, array: Any, dtype: int) -> None:
    rank = array.ndim
    tensor.data = array.__array_interface__["data"][0]
    tensor.rank, tensor.dtype = rank, dtype
    if rank:
        size = array.itemsize
        tensor.shape = _numbers(rank)(*array.shape)
        tensor.strides = _numbers(rank)(*[step // size for step in array.strides])


class _Results:
    """Makes the arrays of one call's results, and keeps the first error of doing so."""

    def __init__(self, make: Callable[..., Any], count: int) -> None:
        self._make = make
        self._arrays: list[Any] = [None] * count
        self.outputs = (_Output * count)()
        self.callback = _Allocate(self._allocate)
        self.error: BaseException | None = None

    def _allocate(self, context: int, number: int, tensor: Any) -> int | None:
        """The library's callback. Errors are kept until the library has returned."""
        wanted = tensor.contents
        rank = wanted.rank
        try:
            shape = wanted.shape[:rank]
            strides = wanted.strides[:rank] if rank and wanted.strides else None
            array = self._make(_dtype_names()[wanted.dtype], shape, strides)
        except BaseException as error:  # noqa: BLE001 - no exception may pass through C
            self.error = error
            return None
        self._arrays[number] = array
        return array.__array_interface__["data"][0]

    def objects(self, inputs: Sequence[Any]) -> list[Any]:
        """The results in order. A result that is an input is the caller's own object."""
        return [
            self._object(n, output, inputs) for n, output in enumerate(self.outputs)
        ]

    def _object(self, number: int, output: _Output, inputs: Sequence[Any]) -> Any:
        kind = _KINDS[output.kind]
        if kind == "alias":
            value = inputs[output.input]
            return value[0] if isinstance(value, tuple) else value
        if kind == "scalar":
            return output.scalar
        return self._arrays[number]


@functools.cache
def _dtype_names() -> list[str]:
    return list(_dtypes())
