"""PyTorch's own samples of the operators that run subgraphs: each is one program."""

from __future__ import annotations

import pytest
import torch
from checking import assert_equal
from torch.testing._internal.hop_db import hop_db
from whole_graphs import assert_whole

from anabranch.backend import anabranch as backend

NAMES = ("cond", "while_loop", "scan", "map", "invoke_subgraph")
CASES = [(i, i.name, i.variant_test_name) for i in hop_db if i.name in NAMES]


@pytest.mark.parametrize(("info", "name", "variant"), CASES)
def test_samples(info, name, variant) -> None:
    for sample in info.sample_inputs("cpu", torch.float32, requires_grad=False):
        torch._dynamo.reset()

        def function(*arguments, kwargs=sample.kwargs):
            return info.op(*arguments, **kwargs)

        arguments = (sample.input, *sample.args)
        run = torch.compile(function, backend=backend, fullgraph=True)
        with torch.no_grad():
            assert_equal(run(*arguments), function(*arguments))
        assert_whole()
