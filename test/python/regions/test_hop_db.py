"""PyTorch's own samples of the operators that run subgraphs: each is one program."""

from __future__ import annotations

import pytest
import torch
from checking import assert_equal
from torch.testing._internal.hop_db import hop_db
from torch.utils._pytree import tree_map_only
from whole_graphs import assert_whole

from anabranch.backend import anabranch as backend

NAMES = (
    "auto_functionalize",
    "cond",
    "flex_attention",
    "invoke_quant",
    "invoke_quant_packed",
    "invoke_subgraph",
    "map",
    "scan",
    "while_loop",
)
CASES = [(i, i.name, i.variant_test_name) for i in hop_db if i.name in NAMES]


@pytest.mark.parametrize(("info", "name", "variant"), CASES)
def test_samples(info, name, variant) -> None:
    for sample in info.sample_inputs("cpu", torch.float32, requires_grad=False):
        torch._dynamo.reset()

        def function(*arguments, kwargs=sample.kwargs):
            return info.op(*arguments, **kwargs)

        arguments = (sample.input, *sample.args)
        run = torch.compile(function, backend=backend, fullgraph=True)
        # A sample may update its arguments.
        fresh = tree_map_only(torch.Tensor, torch.clone, arguments)
        with torch.no_grad():
            assert_equal(run(*fresh), function(*arguments))
        assert_whole()
