"""Ranks that each have the whole model answer as vLLM's own eager ranks do.

scripts/vllm_python.py says when these tests run."""

from __future__ import annotations

import json
from pathlib import Path

import vllm_python

SCRIPT = Path(__file__).parent / "scripts" / "serve_ranks.py"
pytestmark = vllm_python.needs_vllm


def test_data_parallel(tmp_path) -> None:
    answers = []
    for eager in ("1", "0"):
        out, log = vllm_python.run(tmp_path, SCRIPT, eager)
        assert ("Anabranch: 1 program" in out + log) == (eager == "0"), out + log
        answers += json.loads((tmp_path / "tokens.json").read_text())
    first = answers[0]
    assert len(answers) == 4 and len(first) == 3
    assert all(tokens == first for tokens in answers)
    assert first[0] != first[1]
