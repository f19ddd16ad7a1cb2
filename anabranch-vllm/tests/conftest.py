"""Each test traces anew: graphs without guards would serve another test's model."""

from __future__ import annotations

import pytest
import torch

import anabranch


@pytest.fixture(autouse=True)
def traced_anew():
    torch._dynamo.reset()
    anabranch.counters.reset()
