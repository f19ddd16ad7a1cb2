"""Single kernels that memory bandwidth bounds, on 4096 rows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from harness import Row, Workload, case, steady


def rows_of(width: int, function: Callable, dtype: torch.dtype) -> list[Row]:
    def make() -> Workload:
        generator = torch.Generator().manual_seed(0)
        data = torch.randn(4096, width, generator=generator).to(dtype)
        return Workload(function(width, dtype), (data,))

    tolerance = 1e-4 if dtype == torch.float32 else 0.1
    return steady(make, tolerance=tolerance, seconds=4)


def softmax(width: int, dtype: torch.dtype) -> Callable:
    return lambda x: torch.softmax(x, -1)


def layer_norm(width: int, dtype: torch.dtype) -> Callable:
    weight, bias = torch.ones(width, dtype=dtype), torch.zeros(width, dtype=dtype)
    return lambda x: functional.layer_norm(x, (width,), weight, bias)


def layer_norm_gelu(width: int, dtype: torch.dtype) -> Callable:
    norm = layer_norm(width, dtype)
    return lambda x: functional.gelu(norm(x))


def rms_norm(width: int, dtype: torch.dtype) -> Callable:
    weight = torch.ones(width, dtype=dtype)
    return lambda x: functional.rms_norm(x, (width,), weight)


def gelu(width: int, dtype: torch.dtype) -> Callable:
    return functional.gelu


def rms_norm_silu(width: int, dtype: torch.dtype) -> Callable:
    norm = rms_norm(width, dtype)
    return lambda x: functional.silu(norm(x))


@case("softmax")
def softmax_f32() -> list[Row]:
    """softmax of 4096 x 1024, f32"""
    return rows_of(1024, softmax, torch.float32)


@case("softmax-bf16", extra=True)
def softmax_bf16() -> list[Row]:
    """softmax of 4096 x 1024, bf16"""
    return rows_of(1024, softmax, torch.bfloat16)


@case("layer-norm")
def layer_norm_f32() -> list[Row]:
    """layer norm of 4096 x 768, f32"""
    return rows_of(768, layer_norm, torch.float32)


@case("layer-norm-gelu", extra=True)
def layer_norm_gelu_f32() -> list[Row]:
    """layer norm and gelu of 4096 x 768, f32"""
    return rows_of(768, layer_norm_gelu, torch.float32)


@case("rms-norm")
def rms_norm_f32() -> list[Row]:
    """RMS norm of 4096 x 1024, f32"""
    return rows_of(1024, rms_norm, torch.float32)


@case("rms-norm-bf16", extra=True)
def rms_norm_bf16() -> list[Row]:
    """RMS norm of 4096 x 1024, bf16"""
    return rows_of(1024, rms_norm, torch.bfloat16)


@case("layer-norm-gelu-bf16", extra=True)
def layer_norm_gelu_bf16() -> list[Row]:
    """layer norm and gelu of 4096 x 768, bf16"""
    return rows_of(768, layer_norm_gelu, torch.bfloat16)


@case("rms-norm-silu", extra=True)
def rms_norm_silu_f32() -> list[Row]:
    """RMS norm and silu of 4096 x 1024, f32"""
    return rows_of(1024, rms_norm_silu, torch.float32)


@case("gelu", extra=True)
def gelu_f32() -> list[Row]:
    """gelu of 4096 x 1024, f32"""
    return rows_of(1024, gelu, torch.float32)


@case("gelu-bf16", extra=True)
def gelu_bf16() -> list[Row]:
    """gelu of 4096 x 1024, bf16"""
    return rows_of(1024, gelu, torch.bfloat16)
