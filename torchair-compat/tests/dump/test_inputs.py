"""Inputs in dumps: one input packs all numbers; inputs that a graph writes are RefData."""

from __future__ import annotations

import re

import pytest
import torch

import torchair
from pictures import all_of, compiled, only, pictures


@pytest.mark.checklist("T037")
def test_numbers_are_packed(monkeypatch) -> None:
    found = pictures(monkeypatch)

    def function(x, a, b, c, d, e, f):
        return x * a + b * c - d * e, x - f * a

    x = torch.ones(3)
    run = compiled(function, dynamic=True)
    numbers = (2, 3, 4, 5, 6, 7)
    for one, other in zip(run(x, *numbers), function(x, *numbers)):
        assert torch.equal(one, other)
    graph = torchair._impl.dump.inputs.pack_symbols(found[-1].nodes)
    packed = [node for node in graph if node.name == "packed_symbols"]
    assert [node.outputs[0].shape for node in packed] == [[7]]
    unpack = [node for node in graph if node.type == "Unpack"]
    assert len(unpack) == 1
    assert unpack[0].inputs == ["packed_symbols:0"]
    data = {n.name for n in graph if n.type == "Data"} - {"packed_symbols"}
    assert len(data) == 1
    known = {node.name for node in graph}
    for node in graph:
        assert {text.rpartition(":")[0] for text in node.inputs} <= known


def test_one_number_stays(monkeypatch) -> None:
    found = pictures(monkeypatch)
    compiled(lambda x: x * 2, dynamic=True)(torch.ones(3))
    names = [node.name for node in found[-1].nodes if node.type == "Data"]
    assert "packed_symbols" not in names


@pytest.mark.checklist("T140")
def test_two_graphs_share_an_input(config, caplog, debug, tmp_path) -> None:
    config.experimental_config.enable_ref_data = True
    config.debug.graph_dump.type = "pbtxt"
    config.debug.graph_dump.path = str(tmp_path)
    cache = torch.zeros(3, 4)

    def write(x):
        cache.add_(x)
        return x * 2

    def double(x):
        cache.mul_(2)
        return cache + x

    x = torch.ones(3, 4)
    compiled(write, config)(x)
    found = compiled(double, config)(x)
    assert torch.equal(found, torch.full((3, 4), 3.0))
    assert torch.equal(cache, torch.full((3, 4), 2.0))
    text = r"Replace (RefData_3_4_4_1_0_\d+):RefData with (\w+):Data in graph graph_\d+"
    names = re.findall(text, caplog.text)
    assert len(names) == 2
    assert names[0][0] == names[1][0]
    for path in tmp_path.glob("dynamo_original_*.pbtxt"):
        assert f'name: "{names[0][0]}"\n  op: "RefData"' in path.read_text()


def test_nothing_is_named_unasked(monkeypatch) -> None:
    found = pictures(monkeypatch)

    def function(x):
        x.add_(1)
        return x * 2

    compiled(function)(torch.ones(3))
    assert not all_of(found[-1], "RefData")
    assert only(found[-1], "Data")
