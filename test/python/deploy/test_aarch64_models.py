"""Small models with random weights, exported on this machine for 64-bit Arm, give eager's
results on an emulated core. `make test-aarch64` runs all of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import emulated
import pytest
import torch
from small_models import SMALL, words
from torch import nn

import anabranch

transformers = pytest.importorskip("transformers")

pytestmark = emulated.needed
FEW_KEYS = SMALL | {"num_key_value_heads": 2}
IMAGE = {key: SMALL[key] for key in SMALL if key != "vocab_size"} | {
    "image_size": 16,
    "patch_size": 4,
}
# What a configuration says; the model's class is named after it.
ENCODERS: dict[str, dict[str, Any]] = {
    **{name: SMALL for name in ("Bert", "Roberta", "XLMRoberta", "MPNet", "Ernie")},
    "Electra": SMALL | {"embedding_size": 32},
    "Albert": SMALL | {"embedding_size": 16},
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
}
DECODERS: dict[str, dict[str, Any]] = {
    **{name: FEW_KEYS for name in ("Llama", "Mistral", "Qwen2", "Granite", "Cohere")},
    **{name: FEW_KEYS for name in ("Starcoder2", "StableLm", "Olmo", "Phi")},
    "Qwen3": FEW_KEYS | {"head_dim": 8},
    "Gemma": FEW_KEYS | {"head_dim": 8},
    "Gemma2": FEW_KEYS | {"head_dim": 8},
    "Mixtral": FEW_KEYS | {"num_local_experts": 4},
    "GPTNeoX": SMALL,
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "GPTJ": {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4},
    "OPT": SMALL | {"ffn_dim": 64},
}
IMAGES: dict[str, dict[str, Any]] = {
    "ViT": IMAGE,
    "DeiT": IMAGE,
    "Dinov2": IMAGE,
    "CLIPVision": IMAGE,
    "SiglipVision": IMAGE,
}
ALL = {**ENCODERS, **DECODERS, **IMAGES}
FEW = ("Llama",)
NAMES = sorted(ALL) if "ANABRANCH_EMULATE" in os.environ else FEW


class FirstResult(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return self.model(given)[0]


def make(name: str) -> tuple[nn.Module, torch.Tensor]:
    config = getattr(transformers, f"{name}Config")(**ALL[name])
    config.use_cache = False
    model = getattr(transformers, f"{name}Model")(config)
    given = torch.randn(2, 3, 16, 16) if name in IMAGES else words()
    return FirstResult(model).eval(), given


def test_28_models_are_named() -> None:
    assert len(ALL) >= 28


@pytest.mark.parametrize("name", NAMES)
def test_model(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, given = make(name)
    with torch.no_grad():
        wanted = model(given.clone())
    package = tmp_path / "package.anb"
    anabranch.export(model, package, (given,), targets=["neoverse-v1"])
    (got,) = emulated.run_package(package, (given,), tmp_path, "max")
    torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-4)
