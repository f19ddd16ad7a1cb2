"""Keeps the quantised layers of a model in the cache. Rounding takes longer than
reading, and integers that are read are the same in all processes."""

from __future__ import annotations

import json
import os
from typing import Any

import torch
from torch import nn

from .. import Config
from ..extension import (
    ROUNDINGS,
    find_entry,
    keep_cache_small,
    scratch_folder,
    tensor_key,
)
from .quantize import is_linear, quantized, replaced
from .quantized_layers import QuantizedLinear, QuantizedWeight

WEIGHTS = "weights.safetensors"
PARTS = ("integers", "scale", "offset")


def quantized_once(
    model: Any, kind: str, calibration: Any, config: Config, folder: str | None = None
) -> Any:
    """`quantized(model, kind, calibration)`, read from the cache or kept there.

    folder  the root of the cache; None: Anabranch's own
    """
    entry = find_entry(
        ROUNDINGS, lambda: _key(model, kind, calibration), config, folder
    )
    if entry is None:
        return quantized(model, kind, calibration)
    try:
        text = entry.read()
        if text is not None:
            try:
                return _read(model, entry.folder, json.loads(text))
            except (OSError, KeyError, ValueError) as error:
                entry.discard(str(error))
        found = quantized(model, kind, calibration)
        with scratch_folder() as place:
            package = os.path.join(place, "package")
            os.mkdir(package)
            centers = _write(model, found, package)
            if entry.publish(package, {}, json.dumps(centers)):
                keep_cache_small(folder)
        return found
    finally:
        entry.close()


def _key(model: Any, kind: str, calibration: Any) -> list[Any]:
    """All that the integers depend on, besides the machine and the sources."""
    state = [*model.named_parameters(), *model.named_buffers()]
    return [
        torch.__version__,
        [type(model).__name__, model.config.to_json_string(use_diff=False), kind],
        [tensor_key(name, tensor.detach()) for name, tensor in state],
        None if calibration is None else tensor_key("calibration", calibration),
    ]


def _layers(model: Any) -> dict[nn.Module, str]:
    """The linear layers of a model by their first names."""
    named = model.named_modules()
    return {module: name for name, module in named if is_linear(module)}


def _write(model: Any, found: Any, folder: str) -> dict[str, int]:
    """Writes the layers of the quantised model. Returns the center of each layer."""
    from safetensors.torch import save_file

    tensors, centers = dict[str, torch.Tensor](), dict[str, int]()
    for name in _layers(model).values():
        weight = found.get_submodule(name).quantized()
        centers[name] = weight.center
        for part in PARTS:
            if (value := getattr(weight, part)) is not None:
                tensors[f"{name}.{part}"] = value.contiguous()
    save_file(tensors, os.path.join(folder, WEIGHTS))
    return centers


def _read(model: Any, folder: str, centers: dict[str, int]) -> Any:
    from safetensors.torch import load_file

    tensors = load_file(os.path.join(folder, WEIGHTS))
    names = _layers(model)

    def make(layer: nn.Module, _: torch.Tensor) -> nn.Module:
        name = names[layer]
        integers, scale = (tensors[f"{name}.{part}"] for part in PARTS[:2])
        offset = tensors.get(f"{name}.{PARTS[2]}")
        weight = QuantizedWeight(integers, scale, offset, centers[name])
        return QuantizedLinear(weight, layer.bias).eval()

    return replaced(model, make)
