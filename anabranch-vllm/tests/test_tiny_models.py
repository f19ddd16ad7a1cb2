"""Tiny models of many architectures answer in vLLM as vLLM's own eager runs do.

scripts/vllm_python.py says when these tests run. ANABRANCH_VLLM_MODELS names a few of
the models."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import rounded_models
import tiny_models
import torch
import vllm_python

NAMES = os.environ.get("ANABRANCH_VLLM_MODELS", "").split() or [
    *tiny_models.GENERATE,
    *tiny_models.EMBED,
    *tiny_models.WAYS,
]
SCRIPTS = Path(__file__).parent / "scripts"
pytestmark = vllm_python.needs_vllm
Answers = dict[str, dict[str, Any]]


def in_f32(name: str) -> str:
    """The model that vLLM serves in f32 with the values of this one."""
    return f"{name}_floats" if name in rounded_models.FLOATS else name


def of_eager(name: str) -> str:
    """The model whose eager answers are those of this one."""
    if name in tiny_models.COMPILED_ALONE:
        return tiny_models.WAYS[name][0]
    return in_f32(name) if name in rounded_models.OURS_ALONE else name


class Models:
    """The answers of the models. One process serves all models in one dtype."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept: dict[tuple[str, bool], Answers] = {}

    def answers(self, dtype: str, eager: bool) -> Answers:
        key = dtype, eager
        if key not in self.kept:
            self.kept[key] = self._serve(dtype, eager)
        return self.kept[key]

    def _serve(self, dtype: str, eager: bool) -> Answers:
        script, arguments = SCRIPTS / "serve_tiny_models.py", {"enforce_eager": eager}
        names = [in_f32(name) if dtype == "float32" else name for name in NAMES]
        if eager:
            names = [*dict.fromkeys(map(of_eager, names))]
        vllm_python.run(self.folder, script, dtype, json.dumps(arguments), *names)
        return json.loads((self.folder / "answers.json").read_text())


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Models:
    return Models(tmp_path_factory.mktemp("models"))


def rows(answer: dict[str, Any]) -> torch.Tensor:
    return torch.tensor(answer["rows"], dtype=torch.float64)


@pytest.mark.parametrize("name", [*map(in_f32, NAMES)])
def test_f32_equals_eager(models, name) -> None:
    eager = models.answers("float32", eager=True)[of_eager(name)]
    own = models.answers("float32", eager=False)[name]
    assert "error" not in eager, eager
    assert own.get("error") is None
    # Ranks are processes of their own, which compile for themselves.
    assert bool(own["graphs"]) != name.endswith("_parallel")
    assert own["eager"] == eager["graphs"] == 0
    assert own.get("tokens") == eager.get("tokens")
    expected = rows(eager)
    assert expected.std() > 0.01
    torch.testing.assert_close(rows(own), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_bf16_rounds_no_more_than_eager(models, name) -> None:
    in_floats = models.answers("float32", eager=True)[of_eager(in_f32(name))]
    expected = rows(in_floats)
    eager = rows(models.answers("bfloat16", eager=True)[of_eager(name)]) - expected
    own = rows(models.answers("bfloat16", eager=False)[name]) - expected
    assert own.square().mean().sqrt() <= 2 * eager.square().mean().sqrt()
