"""Rounds the linear layers of a tiny Llama, in the formats of quantised checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

GROUP = 32
# vLLM's AWQ kernels store columns in this order.
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
Tensors = dict[str, Tensor]


def packed(values: Tensor) -> Tensor:
    """Eight values of four bits in each int32, along the last dimension, the first one
    lowest."""
    eights = values.long().unflatten(-1, (-1, 8))
    shifted = eights << (4 * torch.arange(8))
    return shifted.sum(-1).to(torch.int32)


def _grouped(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Integers around 8 and scales of a weight, for groups of columns."""
    groups = weight.unflatten(1, (-1, GROUP))
    scale = groups.abs().amax(-1, keepdim=True) / 7.5
    return (groups / scale + 8).round().clamp(0, 15).flatten(1), scale.squeeze(-1)


def _floats(weight: Tensor, zeros: Tensor | int = 8) -> Tensors:
    """The floats that integers of four bits stand for."""
    integers, scale = _grouped(weight)
    groups = integers.unflatten(1, (-1, GROUP)) - torch.as_tensor(zeros)[..., None]
    return {"weight": (groups * scale.half().float()[..., None]).flatten(1)}


def _bytes(weight: Tensor) -> Tensors:
    scale = weight.abs().amax(1, keepdim=True) / 127
    return {"weight": (weight / scale).round().to(torch.int8), "weight_scale": scale}


def _bytes_around_zero_points(weight: Tensor) -> Tensors:
    return _bytes(weight) | {
        "input_scale": torch.tensor([0.05]),
        "input_zero_point": torch.tensor([9], dtype=torch.int8),
    }


def _small_floats(weight: Tensor) -> Tensors:
    """Floats of eight bits, with a scale for each row."""
    scale = weight.abs().amax(1, keepdim=True) / 448
    return {"weight": (weight / scale).to(torch.float8_e4m3fn), "weight_scale": scale}


def _floats_of_small_ones(weight: Tensor) -> Tensors:
    parts = _small_floats(weight)
    return {"weight": parts["weight"].float() * parts["weight_scale"]}


BLOCK = 32


def _blocks(weight: Tensor) -> Tensors:
    """Floats of eight bits, with a scale for each block of rows and columns."""
    blocks = weight.unflatten(0, (-1, BLOCK)).unflatten(2, (-1, BLOCK))
    scale = blocks.abs().amax((1, 3), keepdim=True) / 448
    codes = (blocks / scale).to(torch.float8_e4m3fn)
    return {
        "weight": codes.flatten(2).flatten(0, 1),
        "weight_scale": scale.squeeze(3).squeeze(1),
    }


def _floats_of_blocks(weight: Tensor) -> Tensors:
    parts = _blocks(weight)
    scale = parts["weight_scale"].repeat_interleave(BLOCK, 0)
    return {"weight": parts["weight"].float() * scale.repeat_interleave(BLOCK, 1)}


def _half_bytes(weight: Tensor) -> Tensors:
    integers, scale = _grouped(weight)
    return {
        "weight_packed": packed(integers),
        "weight_scale": scale,
        "weight_shape": torch.tensor(weight.shape),
    }


def _awq_zeros(scale: Tensor) -> Tensor:
    zeros = torch.full_like(scale, 8)
    zeros[::3] = 7
    return zeros


def _awq_floats(weight: Tensor) -> Tensors:
    _, scale = _grouped(weight)
    return _floats(weight, _awq_zeros(scale))


def _awq(weight: Tensor) -> Tensors:
    integers, scale = _grouped(weight)
    zeros = _awq_zeros(scale)
    ordered = lambda values: values.t().unflatten(1, (-1, 8))[..., AWQ_ORDER].flatten(1)
    return {
        "qweight": packed(ordered(integers)),
        "qzeros": packed(ordered(zeros)),
        "scales": scale.t().contiguous().half(),
    }


def _gptq(weight: Tensor) -> Tensors:
    integers, scale = _grouped(weight)
    return {
        "qweight": packed(integers).t().contiguous(),
        "qzeros": packed(torch.full_like(scale, 7).t()),
        "scales": scale.t().contiguous().half(),
        "g_idx": torch.arange(weight.shape[1], dtype=torch.int32) // GROUP,
    }


def _compressed(form: str, **arguments: Any) -> dict[str, Any]:
    """The configuration of compressed-tensors: what it says of all linear layers."""
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], **arguments}},
    }


_BYTE = {"num_bits": 8, "type": "int", "symmetric": True}
_CHANNEL = _BYTE | {"strategy": "channel"}
_FLOAT = {"num_bits": 8, "type": "float", "symmetric": True}
# By name: the tensors that stand for a weight, and the checkpoint's configuration.
FORMATS: dict[str, tuple[Callable[[Tensor], Tensors], dict[str, Any]]] = {
    "w8a8": (
        _bytes,
        _compressed(
            "int-quantized",
            weights=_CHANNEL,
            input_activations=_BYTE | {"strategy": "token", "dynamic": True},
        ),
    ),
    "w8a8_static": (
        _bytes_around_zero_points,
        _compressed(
            "int-quantized",
            weights=_CHANNEL,
            input_activations=_BYTE
            | {"strategy": "tensor", "dynamic": False, "symmetric": False},
        ),
    ),
    "fp8": (
        _small_floats,
        _compressed(
            "float-quantized",
            weights=_FLOAT | {"strategy": "channel"},
            input_activations=_FLOAT | {"strategy": "token", "dynamic": True},
        ),
    ),
    "fp8_weights": (
        _small_floats,
        _compressed("float-quantized", weights=_FLOAT | {"strategy": "channel"}),
    ),
    "fp8_blocks": (
        _blocks,
        _compressed(
            "float-quantized",
            weights=_FLOAT | {"strategy": "block", "block_structure": [BLOCK, BLOCK]},
            input_activations=_FLOAT
            | {"strategy": "group", "group_size": BLOCK, "dynamic": True},
        ),
    ),
    "w4a16": (
        _half_bytes,
        _compressed(
            "pack-quantized",
            weights={
                "num_bits": 4,
                "type": "int",
                "symmetric": True,
                "strategy": "group",
                "group_size": GROUP,
            },
        ),
    ),
    "awq": (
        _awq,
        {
            "quant_method": "awq",
            "bits": 4,
            "group_size": GROUP,
            "zero_point": True,
            "version": "gemm",
        },
    ),
    "gptq": (
        _gptq,
        {
            "quant_method": "gptq",
            "bits": 4,
            "group_size": GROUP,
            "desc_act": False,
            "sym": True,
        },
    ),
}

# Formats for which vLLM has no kernel on CPUs.
OURS_ALONE = ("fp8_weights", "fp8_blocks")
# Those, and formats that vLLM's kernels compute in 16 bits only: the floats that they
# stand for.
FLOATS: dict[str, Callable[[Tensor], Tensors]] = {
    "fp8_weights": _floats_of_small_ones,
    "fp8_blocks": _floats_of_blocks,
    "w4a16": _floats,
    "awq": _awq_floats,
    "gptq": _floats,
}


def round_weights(folder: str, name: str) -> None:
    """Rounds the linear layers of the checkpoint in a folder. NAME_floats: to the floats
    that the checkpoint NAME has."""
    path = Path(folder)
    if name.endswith("_floats"):
        _replace(path, FLOATS[name.removesuffix("_floats")])
        return
    split, config = FORMATS[name]
    _replace(path, split)
    fields = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(
        json.dumps(fields | {"quantization_config": config})
    )


def _replace(folder: Path, split: Callable[[Tensor], Tensors]) -> None:
    from safetensors.torch import load_file, save_file

    tensors = {}
    for key, value in load_file(folder / "model.safetensors").items():
        if key.endswith("_proj.weight"):
            layer = key.removesuffix("weight")
            tensors |= {layer + part: x for part, x in split(value).items()}
        else:
            tensors[key] = value
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
