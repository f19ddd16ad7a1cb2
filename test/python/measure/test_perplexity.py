"""benchmark/language/perplexity.py measures what PyTorch computes in float64."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from decoders import llama, prompt

sys.path.append(str(Path(__file__).parents[3] / "benchmark" / "language"))
import perplexity


def words(model, tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        logits = model.double()(tokens.unsqueeze(0)).logits[0, :-1]
    model.float()
    return logits.log_softmax(-1)


def test_perplexity_and_divergence(monkeypatch):
    monkeypatch.setattr(perplexity, "WINDOW", 20)
    one, other, tokens = llama(), llama(), prompt(1, 61)[0]
    # The last token has a window of its own, which says nothing.
    windows = tokens[:60].split(20)
    said = torch.cat([words(one, window) for window in windows])
    wanted = torch.cat([words(other, window) for window in windows])
    labels = torch.cat([window[1:] for window in windows])
    likely = said.gather(1, labels.unsqueeze(1)).mean()
    apart = (wanted.exp() * (wanted - said)).sum(1).mean()
    found, nats = perplexity.perplexity(one, tokens, other)
    assert found == pytest.approx((-likely).exp().item(), rel=1e-4)
    assert nats == pytest.approx(apart.item(), rel=1e-4)
    assert nats > 0.1
    assert perplexity.perplexity(one, tokens) == (found, 0)
    assert perplexity.perplexity(one, tokens, one)[1] == 0
