"""Each test traces anew, since graphs without guards would serve another test's model,
and keeps its programs in a folder of its own."""

from __future__ import annotations

import many_compilations
import pytest
import torch

import anabranch


@pytest.fixture(autouse=True, scope="session")
def spared():
    many_compilations.spare()


@pytest.fixture(autouse=True)
def traced_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path / "vllm"))
    torch._dynamo.reset()
    anabranch.counters.reset()
