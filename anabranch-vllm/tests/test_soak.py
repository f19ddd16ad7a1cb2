"""Thousands of requests with random lengths, aborts, prefix hits and reloads of weights:
each answer is that of vLLM's eager run, and memory does not grow. ANABRANCH_VLLM_SOAK is
the number of requests; the test is skipped without it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import vllm_python

REQUESTS = int(os.environ.get("ANABRANCH_VLLM_SOAK", "0"))
SCRIPT = Path(__file__).parent / "scripts" / "soak.py"


def soaked(folder: Path, requests: int, **arguments) -> dict:
    vllm_python.run(folder, SCRIPT, str(requests), json.dumps(arguments))
    return json.loads((folder / "soak.json").read_text())


@vllm_python.needs_vllm
@pytest.mark.skipif(not REQUESTS, reason="ANABRANCH_VLLM_SOAK is not set")
def test_each_answer_is_right_under_load(tmp_path) -> None:
    expected = dict(soaked(tmp_path, 0, enforce_eager=True)["answers"])
    found = soaked(tmp_path, REQUESTS)
    assert len(found["answers"]) + found["aborted"] == REQUESTS
    assert found["aborted"] > REQUESTS // 20
    assert found["reloads"] >= 10
    for prompt, tokens in found["answers"]:
        assert tokens == expected[prompt][: len(tokens)]
    early, last = found["memory"][2], found["memory"][-1]
    assert last <= 1.05 * early + 16
