"""torch_npu.HiFloat8Tensor: a tensor that keeps its elements as bytes of hifloat8."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map
from typing_extensions import Self

from ..operators.quantisation.small_floats import HIFLOAT8

__all__ = ["HiFloat8Tensor"]

aten = torch.ops.aten

# Operators that move elements and read none: their first argument is the tensor.
_MOVES = frozenset(
    (
        aten._unsafe_view.default,
        aten.alias.default,
        aten.as_strided.default,
        aten.clone.default,
        aten.detach.default,
        aten.expand.default,
        aten.permute.default,
        aten.reshape.default,
        aten.select.int,
        aten.slice.Tensor,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.t.default,
        aten.transpose.int,
        aten.unsqueeze.default,
        aten.view.default,
    )
)


class HiFloat8Tensor(Tensor):
    """A tensor of a float dtype whose elements are bytes of hifloat8, `_data`.

    Views, copies and casts keep the bytes. Other operators take the values in the tensor's
    dtype, and return plain tensors. It has no gradient.
    """

    _data: Tensor

    @staticmethod
    def __new__(cls, *, data: Tensor, dtype: torch.dtype = torch.float32) -> Self:
        """ValueError: data that are no bytes."""
        if data.dtype != torch.uint8:
            raise ValueError(f"data of HiFloat8Tensor must be uint8, got {data.dtype}")
        made = Tensor._make_wrapper_subclass(
            cls,
            data.size(),
            strides=data.stride(),
            storage_offset=data.storage_offset(),
            dtype=dtype,
            layout=data.layout,
            device=data.device,
        )
        made._data = data
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def to_hifloat8(cls, tensor: Tensor) -> HiFloat8Tensor:
        """The tensor rounded to hifloat8. Integers become float32."""
        dtype = tensor.dtype if tensor.is_floating_point() else torch.float32
        return cls(data=_encoded(tensor), dtype=dtype)

    def from_hifloat8(self, dtype: torch.dtype | None = None) -> Tensor:
        """The values in this dtype, or in the tensor's."""
        return HIFLOAT8.decode(self._data).to(dtype or self.dtype)

    def to_dtype(self, dtype: torch.dtype) -> HiFloat8Tensor:
        """The same bytes as a tensor of another dtype."""
        return HiFloat8Tensor(data=self._data, dtype=dtype)

    def float(self, *_: Any, **__: Any) -> Tensor:
        return self.from_hifloat8(torch.float32)

    def bfloat16(self, *_: Any, **__: Any) -> Tensor:
        return self.from_hifloat8(torch.bfloat16)

    def half(self, *_: Any, **__: Any) -> Tensor:
        return self.from_hifloat8(torch.float16)

    def cpu(self, *_: Any, **__: Any) -> Tensor:
        return self.from_hifloat8()

    def __repr__(self, **_: Any) -> str:
        return f"HiFloat8Tensor(data={self.from_hifloat8()})"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _restored, (self._data, self.dtype)

    def __tensor_flatten__(self) -> tuple[list[str], torch.dtype]:
        return ["_data"], self.dtype

    @staticmethod
    def __tensor_unflatten__(
        inner: dict[str, Tensor], dtype: torch.dtype, size: Any, stride: Any
    ) -> HiFloat8Tensor:
        return HiFloat8Tensor(data=inner["_data"], dtype=dtype)

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        first = args[0] if args else None
        if isinstance(first, HiFloat8Tensor):
            if func in _MOVES:
                moved = func(first._data, *args[1:], **kwargs)
                return HiFloat8Tensor(data=moved, dtype=first.dtype)
            if func is aten._to_copy.default:
                return _cast(first, **kwargs)
        plain_args, plain_kwargs = tree_map(_plain, (args, kwargs))
        made = func(*plain_args, **plain_kwargs)
        if not func._schema.is_mutable:
            return made
        return _kept(func._schema, (args, kwargs), (plain_args, plain_kwargs), made)


def _encoded(tensor: Tensor) -> Tensor:
    values = tensor.detach().to(torch.float32)
    return HIFLOAT8.encode(values).to(torch.uint8)


def _plain(value: Any) -> Any:
    return value.from_hifloat8() if isinstance(value, HiFloat8Tensor) else value


def _restored(data: Tensor, dtype: torch.dtype) -> HiFloat8Tensor:
    return HiFloat8Tensor(data=data, dtype=dtype)


def _cast(
    tensor: HiFloat8Tensor, dtype: torch.dtype | None = None, **options: Any
) -> HiFloat8Tensor:
    data = aten._to_copy.default(tensor._data, **options)
    return HiFloat8Tensor(data=data, dtype=dtype or tensor.dtype)


def _kept(schema: Any, given: Any, plain: Any, made: Any) -> Any:
    """The result of an operator that wrote to values: they are rounded back to the tensors
    that they came from, which are the results in their place."""
    back: dict[int, HiFloat8Tensor] = {}
    places = enumerate(schema.arguments)
    for place, argument in places:
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        by_place = place < len(given[0]) and not argument.kwarg_only
        key: Any = place if by_place else argument.name
        told, values = (given[0], plain[0]) if by_place else (given[1], plain[1])
        if by_place or key in told:
            target, value = told[key], values[key]
            if isinstance(target, HiFloat8Tensor):
                target._data.copy_(_encoded(value))
                back[id(value)] = target
    return tree_map(lambda value: back.get(id(value), value), made)
