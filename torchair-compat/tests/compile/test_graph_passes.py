"""Graph passes: they remove operators without effect, join into buffers, and log it."""

from __future__ import annotations

import logging
import re

import pytest
import torch
from torch.nn import functional

import torchair
from pictures import compiled


@pytest.fixture
def nodes(config):
    """The operators of each graph that the user's last pass gets."""
    found = []
    config.post_grad_custom_post_pass = lambda module, *_: found.append(
        [n.target.__name__ for n in module.graph.nodes if n.op == "call_function"]
    )
    return found


X, Y = torch.randn(3, 4), torch.randn(3, 4)

NOOPS = {
    "slice": lambda x, y: (x + 1)[:, :] * 2,
    "slice_scatter": lambda x, y: torch.slice_scatter(x + 1, y + 1, 0, 0, 3) * 2,
    "repeat": lambda x, y: (x + 1).repeat(1, 1) * 2,
    "constant_pad_nd": lambda x, y: functional.pad(x + 1, (0, 0)) * 2,
    "ceil": lambda x, y: torch.ceil(x.int()) * 2,
    "pow": lambda x, y: (x + 1).pow(1) * 2,
    "cat": lambda x, y: torch.cat([x + 1]) * 2,
    "clone": lambda x, y: (x + 1).clone() * 2,
    "_to_copy": lambda x, y: (x + 1).to(torch.float32, copy=True) * 2,
}


@pytest.mark.checklist("T122")
@pytest.mark.parametrize("mode", ["max-autotune", "npugraph_ex"])
@pytest.mark.parametrize("removes", [True, False])
@pytest.mark.parametrize("name", NOOPS)
def test_operators_that_do_nothing(config, nodes, name, removes, mode) -> None:
    config.mode = mode
    config.experimental_config.remove_noop_ops = removes
    found = compiled(NOOPS[name], config)(X, Y)
    assert torch.equal(found, NOOPS[name](X, Y))
    kinds = {kind.partition(".")[0] for kind in nodes[0]}
    traced = "alias" if name == "slice" else name  # as PyTorch traces a whole slice
    assert (traced in kinds) != removes


def returned(x, y):
    return x.clone(), y + 1


def twice(x, y):
    z = x + y
    return z, z.clone()


def in_place(x, y):
    z = x.clone()
    x.add_(1)
    return z * 2 + y


def other_form(x, y):
    return (x + 1).repeat(2, 1)[1:4] + y, x[:, 1:] * 2, functional.pad(x, (0, 1)) + 1


def shifted(x, y):
    return functional.pad(x + 1, (1, -1)) * 2, functional.pad(x, (0, 0, -1, 1)) + y


@pytest.mark.checklist("T122")
@pytest.mark.parametrize("function", [returned, twice, in_place, other_form, shifted])
def test_copies_that_keep_tensors_apart_stay(config, function) -> None:
    a, b = X.clone(), X.clone()
    found = compiled(function, config)(a, Y)
    wanted = function(b, Y)
    assert torch.equal(a, b)
    for one, other in zip(found, wanted):
        assert torch.equal(one, other)
    tensors = [t for t in (a, Y, *found) if isinstance(t, torch.Tensor)]
    if function is not in_place:
        places = [t.untyped_storage().data_ptr() for t in tensors]
        assert len(set(places)) == len(places)


# Joins


def basic(x, y):
    return torch.cat([x.sin(), y.exp()])


def other_order(x, y):
    a, b = x.sin(), y.exp()
    return torch.cat([b, a]) + 1


def mixed(x, y):
    return torch.cat([x + 1, y.sin(), x @ y.t() @ x, y.exp()])


def along_rows(x, y):
    return torch.cat([x.sin(), y.exp()], 1)


def views(x, y):
    return torch.cat([(x.sin()).t(), (y.exp()).t()])


def shared(x, y):
    z = x.sin()
    return torch.cat([z, y.exp()]), z


def doubled(x, y):
    z = x.sin()
    return torch.cat([z, z])


def captured(config, function, folder, inputs=(X, Y)) -> str:
    """The graph after optimisation."""
    config.mode = "npugraph_ex"
    config.debug.graph_dump.type = "py"
    config.debug.graph_dump.path = str(folder)
    found = compiled(function, config)(*inputs)
    for one, other in zip(found, function(*inputs)):
        torch.testing.assert_close(one, other)
    (path,) = folder.glob("dynamo_optimized_*.py")
    return path.read_text()


@pytest.mark.checklist("T121")
@pytest.mark.parametrize("function", [basic, other_order, mixed])
def test_joins_are_buffers(config, tmp_path, caplog, debug, function) -> None:
    text = captured(config, function, tmp_path)
    assert "aten.empty" in text
    assert "aten.cat" not in text
    assert "out = " in text
    assert "[remove_cat_ops] Found 1 cat node(s)" in caplog.text
    assert "[remove_cat_ops] Optimizing cat" in caplog.text
    assert "remove_cat_ops: Optimized 1 cat node(s)" in caplog.text


@pytest.mark.checklist("T121")
@pytest.mark.parametrize(
    "function, why",
    [
        (along_rows, "dim 1 is not 0"),
        (views, "is a view"),
        (shared, "is shared"),
        (doubled, "is joined twice"),
        (lambda x, y: torch.cat([x, y.sin()]), "is no result of an operator"),
    ],
)
def test_joins_that_stay(config, tmp_path, caplog, debug, function, why) -> None:
    text = captured(config, function, tmp_path)
    assert "aten.cat" in text
    assert re.search(rf"\[remove_cat_ops\] Skip cat: .*{why}", caplog.text)
    assert "remove_cat_ops: Optimized 0 cat node(s)" in caplog.text


def test_joins_stay_where_the_option_is_off(config, tmp_path) -> None:
    config.debug.aclgraph.remove_cat_ops = False
    assert "aten.cat" in captured(config, basic, tmp_path)


def test_joins_of_other_streams_stay(config, tmp_path) -> None:
    def function(x, y):
        with torchair.scope.npu_stream_switch("1"):
            a = x.sin()
        return torch.cat([a, y.exp()])

    assert "aten.cat" in captured(config, function, tmp_path)


# The log


@pytest.mark.checklist("T124")
@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
@pytest.mark.parametrize("mode", ["max-autotune", "npugraph_ex"])
def test_passes_are_logged(config, caplog, mode, level) -> None:
    torchair.logger.setLevel(level)
    config.mode = mode
    compiled(NOOPS["clone"], config)(X, Y)
    text = r"After fx graph pass\(optimize_noop_ops\) optimization.*before 5 nodes, after 4"
    assert bool(re.search(text, caplog.text)) == (level == logging.DEBUG)
    every = "After fx graph pass(all npugraph_ex pass) optimization" in caplog.text
    assert every == (level == logging.DEBUG and mode == "npugraph_ex")
