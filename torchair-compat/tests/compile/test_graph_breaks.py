"""BREAK_GRAPH_OP_LIST, in processes that set it."""

from __future__ import annotations

import pytest

from programs import run_script

SCRIPT = """
import torch
import torch._dynamo.testing
import torchair

linear = torch.nn.Linear(4, 4)
conv = torch.nn.Conv3d(1, 1, 1)


def slices(x):
    return (x + 1)[1:] * 2


def sets(x):
    y = x + 1
    y[0] = 3
    return y * 2


def products(x):
    return linear(x + 1) * 2


def convolutions(x):
    return conv((x + 1).reshape(1, 1, 1, -1, 4)) * 2


def plain(x):
    return (x + 1)[0] * 2


x = torch.randn(3, 4)
for function in (slices, sets, products, convolutions, plain):
    torch._dynamo.reset()
    counts = torch._dynamo.testing.CompileCounter()
    with torch.no_grad():
        torch.compile(function, backend=counts)(x)
        torch._dynamo.reset()
        run = torch.compile(function, backend=torchair.get_npu_backend())
        torch.testing.assert_close(run(x), function(x))
    if counts.frame_count > 1:
        print(function.__name__)
"""


@pytest.mark.parametrize(
    "text, breaks",
    [
        ("", []),
        ("SLICE", ["slices"]),
        ("SETITEM,NN.CONV3D", ["sets", "convolutions"]),
        ("nn.linear", ["products"]),
    ],
)
def test_named_operators_break_graphs(tmp_path, monkeypatch, text, breaks) -> None:
    monkeypatch.setenv("BREAK_GRAPH_OP_LIST", text)
    assert run_script(tmp_path, SCRIPT).stdout.split() == breaks


def test_names_that_are_not_known(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("BREAK_GRAPH_OP_LIST", "SLICES")
    done = run_script(tmp_path, "import torchair")
    assert "BREAK_GRAPH_OP_LIST: 'SLICES' is none of SLICE, SETITEM," in done.stderr
