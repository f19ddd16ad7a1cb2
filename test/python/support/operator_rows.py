"""The rows of the operator table, and the functions that their samples call."""

from __future__ import annotations

import importlib
import json

import torch

from anabranch import _C

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
    "c64": torch.complex64,
    "c128": torch.complex128,
    "f8e4m3fn": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
}
TABLE = json.loads(_C.operator_table())


def names(dtype: torch.dtype) -> dict[str, object]:
    """The functions of a row's samples: see OpTable.h."""

    def any_value(*shape):
        if dtype is torch.bool:
            return torch.rand(shape) > 0.5
        if dtype.is_floating_point:
            return (torch.rand(shape) * 1.8 - 0.9).to(dtype)
        low = 0 if dtype is torch.uint8 else -9
        return torch.randint(low, 10, shape).to(dtype)

    def positive(*shape):
        if dtype.is_floating_point:
            return (torch.rand(shape) * 2 + 1.05).to(dtype)
        return torch.randint(1, 10, shape).to(dtype)

    return {
        "T": any_value,
        "P": positive,
        "B": lambda *shape: torch.rand(shape) > 0.5,
        "I": lambda limit, *shape: torch.randint(0, limit, shape),
        "F": lambda *shape: torch.randn(shape),
        "dtype": dtype,
        "torch": torch,
        "call": lambda *args, **kwargs: (args, kwargs),
    }


# The modules that define operators of other packages.
MODULES = {"transformers": "transformers.integrations.moe"}


def overload(name: str):
    namespace, _, rest = name.rpartition("::")
    base, _, variant = rest.partition(".")
    if namespace in MODULES:
        importlib.import_module(MODULES[namespace])
    packet = getattr(getattr(torch.ops, namespace or "aten"), base)
    return getattr(packet, variant or "default")
