"""Features of vLLM that change what a model computes, or when, answer as vLLM's own eager
runs do.

scripts/vllm_python.py says when these tests run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import vllm_python

SCRIPT = Path(__file__).parent / "scripts" / "serve_features.py"
pytestmark = vllm_python.needs_vllm


def answered(folder: Path, feature: str, eager: bool) -> dict[str, Any]:
    arguments = json.dumps({"enforce_eager": eager})
    vllm_python.run(folder, SCRIPT, feature, arguments)
    return json.loads((folder / "answer.json").read_text())


def test_adapters(tmp_path) -> None:
    """vLLM compiles no model with LoRA on CPUs, so Anabranch has none."""
    expected = answered(tmp_path, "lora", eager=True)
    found = answered(tmp_path, "lora", eager=False)
    assert found == expected
    assert found["graphs"] == 0
    without, with_adapter = found["answer"]
    assert without != with_adapter


def test_a_server_that_slept(tmp_path) -> None:
    expected = answered(tmp_path, "sleep", eager=True)
    found = answered(tmp_path, "sleep", eager=False)
    assert found["answer"] == expected["answer"]
    assert found["answer"][0] == found["answer"][1]
    assert found["graphs"] and not found["eager"]


def test_greedy_tokens_of_16_bit_logits(tmp_path) -> None:
    found = answered(tmp_path, "greedy", eager=False)
    plain, with_logprobs, penalised, biased, again = found["answer"]
    assert plain == with_logprobs == again
    assert penalised != plain
    assert all(token == 7 for row in biased for token in row)
    assert found["graphs"] == 3 and not found["eager"]  # model, logits, greedy tokens


def test_scores_of_texts(tmp_path) -> None:
    expected = torch.tensor(answered(tmp_path, "rerank", eager=True)["answer"])
    found = answered(tmp_path, "rerank", eager=False)
    torch.testing.assert_close(
        torch.tensor(found["answer"]), expected, rtol=1e-4, atol=1e-5
    )
    assert found["graphs"] and not found["eager"]
    assert expected.std() > 1e-3
