"""debug.data_dump and dump_config write the values of a graph's nodes to files."""

from __future__ import annotations

import csv
import json
import os

import numpy
import pytest
import torch

import torch_npu
import torchair
from pictures import compiled

pytestmark = pytest.mark.filterwarnings("ignore:When dumping data")


def names(folder) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.fixture
def dumping(config, tmp_path):
    config.debug.data_dump.type = "npy"
    config.debug.data_dump.path = str(tmp_path)
    return config


@pytest.mark.checklist("T136")
def test_one_sum_makes_three_files(dumping, tmp_path) -> None:
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    run = compiled(torch.add, dumping)
    with pytest.warns(UserWarning, match="npu run will be skipped, and FALLBACK to EA"):
        assert torch.equal(run(x, y), x + y)
    found = names(tmp_path)
    assert len(found) == 3
    for path, value in zip(found, (x, y, x + y)):
        home, graph, step, name = path.split(os.sep)
        assert home == "worldsize1_global_rank0"
        assert graph.startswith("graph_")
        assert step == "0"
        assert name.startswith("add-aten.add.Tensor.")
        assert numpy.array_equal(numpy.load(tmp_path / path), value.numpy())
    assert [p.split(".")[3:-2] for p in found] == [
        ["INPUT", "0"],
        ["INPUT", "1"],
        ["OUTPUT", "0"],
    ]
    run(x, y)
    assert len(names(tmp_path)) == 6
    assert {p.split(os.sep)[2] for p in names(tmp_path)} == {"0", "1"}


@pytest.mark.checklist("T136")
def test_lists_numbers_and_bfloat16(dumping, tmp_path) -> None:
    x = torch.randn(2, 3).bfloat16()
    compiled(lambda x: torch.cat([x, x * 2.5]), dumping)(x)
    found = {p.partition("-")[2]: p for p in names(tmp_path)}
    kinds = sorted(key.rsplit(".", 2)[0] for key in found)
    assert kinds == [
        "aten.cat.default.INPUT.0.0",
        "aten.cat.default.INPUT.0.1",
        "aten.cat.default.OUTPUT.0",
        "aten.mul.Tensor.INPUT.0",
        "aten.mul.Tensor.INPUT.1",
        "aten.mul.Tensor.OUTPUT.0",
    ]
    for key, path in found.items():
        value = numpy.load(tmp_path / path)
        if "mul.Tensor.INPUT.1" in key:
            assert value == 2.5
        else:
            assert value.dtype == numpy.float32


@pytest.mark.checklist("T136")
def test_a_filter_leaves_out(dumping, tmp_path) -> None:
    dumping.debug.data_dump.filter = lambda node: node if "mul" in node.name else None
    compiled(lambda x: (x + 1) * 2, dumping)(torch.randn(2))
    assert {p.partition("-")[2][:8] for p in names(tmp_path)} == {"aten.mul"}


@pytest.mark.checklist("T136")
def test_a_path_through_a_file(config, tmp_path) -> None:
    (tmp_path / "file").touch()
    config.debug.data_dump.type = "npy"
    config.debug.data_dump.path = str(tmp_path / "file" / "folder")
    with pytest.raises(NotADirectoryError):
        compiled(torch.exp, config)(torch.randn(2))


@pytest.fixture
def engine(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dumps").mkdir()
    config.dump_config.enable_dump = True
    config.dump_config.dump_path = str(tmp_path / "dumps")
    return config


def function(x, y):
    total = x + y
    with torchair.scope.data_dump():
        less = x - y
    return total, less, total * less


def inputs():
    return torch.randn(2, 2).half(), torch.randn(2, 2).half()


@pytest.mark.checklist("T061")
def test_layers_and_scopes_are_joined(engine, tmp_path) -> None:
    engine.dump_config.dump_layer = "Add"
    x, y = inputs()
    found = compiled(function, engine)(x, y)
    torch.testing.assert_close(found, function(x, y))
    files = [os.path.basename(p) for p in names(tmp_path / "dumps")]
    assert files == [
        f"{kind}.{kind}.{side}.npy"
        for kind in ("Add", "Sub")
        for side in ("input.0", "input.1", "output.0")
    ]
    (path,) = (tmp_path / "ge_dump_data_json").iterdir()
    assert path.name == f"dump_options_worldsize1_rank0_pid{os.getpid()}.json"
    dump = json.loads(path.read_text())["dump"]
    assert dump["dump_list"][0]["layer"] == ["Add", "Sub"]
    assert dump["dump_mode"] == "all"


def test_sides_and_steps(engine, tmp_path) -> None:
    engine.dump_config.dump_mode = "output"
    engine.dump_config.dump_step = "0|2-3"
    run = compiled(torch.mul, engine)
    for _ in range(5):
        x, y = inputs()
        run(x, y)
    found = names(tmp_path / "dumps")
    assert {os.path.basename(p) for p in found} == {"Mul.Mul.output.0.npy"}
    assert [p.split(os.sep)[-2] for p in found] == ["0", "2", "3"]


def test_statistics(engine, tmp_path) -> None:
    engine.dump_config.dump_data = "stats"
    x = torch.tensor([[3.0, -4.0], [0.0, 0.0]])
    compiled(torch.neg, engine)(x)
    (path,) = (tmp_path / "dumps").rglob("statistics.csv")
    before, after = csv.DictReader(path.open())
    assert (before["op_name"], before["side"]) == ("Neg", "input")
    assert [float(after[k]) for k in ("max", "min", "mean", "l2")] == [4, -3, 0.25, 5]


@pytest.mark.parametrize("stage", ["original", "optimized"])
def test_capture_modes_save_results(engine, tmp_path, stage) -> None:
    engine.mode = "npugraph_ex"
    engine.dump_config.data_dump_stage = stage

    def change(module, *_) -> None:
        for node in module.graph.nodes:
            if node.target is torch.ops.aten.sin.default:
                node.target = torch.ops.aten.cos.default

    engine.post_grad_custom_post_pass = change
    run = compiled(lambda x: x.sin() + 1, engine)
    x = torch.randn(3)
    expected = x.sin() if stage == "original" else x.cos()
    for _ in range(2):
        torch.testing.assert_close(run(x), expected + 1)
    (home,) = (tmp_path / "dumps").iterdir()
    assert home.name == "worldsize1_global_rank0"
    assert names(home) == [
        "add_device_0_1.pt",
        "add_device_0_2.pt",
        "arg0_1_device_0_1.pt",
        "arg0_1_device_0_2.pt",
        "sin_device_0_1.pt",
        "sin_device_0_2.pt",
    ]
    torch.testing.assert_close(torch.load(home / "sin_device_0_2.pt"), expected)
    torch.testing.assert_close(torch.load(home / "arg0_1_device_0_1.pt"), x)


def test_a_result_that_the_program_saves_is_saved_once(engine, tmp_path) -> None:
    engine.mode = "reduce-overhead"

    def function(x):
        y = x @ x
        torch_npu.save_npugraph_tensor(y, save_path=str(tmp_path / "own.pt"))
        return y, y * y

    x = torch.randn(2, 2)
    compiled(function, engine)(x)
    (home,) = (tmp_path / "dumps").iterdir()
    assert names(home) == ["arg0_1_device_0_1.pt", "mul_device_0_1.pt"]
    torch.testing.assert_close(torch.load(tmp_path / "own_device_0_0.pt"), x @ x)


def test_models_have_numbers_of_their_own(engine, tmp_path) -> None:
    """Graphs of the other modes do not count."""
    x, y = inputs()
    found = []
    for mode in ("max-autotune", "npugraph_ex", "max-autotune"):
        engine.mode = mode
        compiled(torch.mul, engine)(x, y)
        paths = [p.split(os.sep) for p in names(tmp_path / "dumps")]
        found.append({int(p[-3]) for p in paths if len(p) > 3})
    assert found[0] == found[1]
    assert sorted(found[2]) == [*found[0], max(found[0]) + 1]
