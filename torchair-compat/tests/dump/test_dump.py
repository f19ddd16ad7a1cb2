"""Graph dumps have the documented names, and each form can be read back."""

from __future__ import annotations

import ast
import re

import pytest
import torch

import prototext
import torchair as tng
from pictures import all_of, compiled, pictures

NAME = re.compile(
    r"dynamo_(optimized|original)_graph_(\d+)_rank_0_pid_(\d+)_ts_(\d{20})\.(\w+)"
)


def function(x, y):
    """A function with attributes of all types, several outputs, literals and a copy."""
    with tng.scope.npu_stream_switch('线 "1"\n'):
        a, b = torch.topk(x.float(), 2, dim=1)
    c = (x * 1.5).sum(dim=[0, 1], keepdim=True).to(torch.float32)
    return a, b, c, y.view(-1, 4) + 2, x[1:, None]


def dump(config, kind, folder, **settings) -> dict[str, str]:
    config.debug.graph_dump.type = kind
    config.debug.graph_dump.path = str(folder)
    x, y = torch.randn(4, 4), torch.randn(8, 2)
    found = compiled(function, config, **settings)(x, y)
    torch.testing.assert_close(found, function(x, y))
    matches = {path: NAME.fullmatch(path.name) for path in folder.iterdir()}
    assert all(m and m[5] == kind for m in matches.values())
    assert len({m[2] for m in matches.values() if m}) == 1
    return {m[1]: path.read_text() for path, m in matches.items() if m}


@pytest.mark.checklist("T134")
@pytest.mark.parametrize("dynamic", [False, True])
def test_pbtxt_is_a_graph_def(config, tmp_path, dynamic) -> None:
    texts = dump(config, "pbtxt", tmp_path / "new" / "folder", dynamic=dynamic)
    assert set(texts) == {"original", "optimized"}
    for text in texts.values():
        nodes = prototext.graph_def(text)
        assert nodes[-1]["op"] == ["NetOutput"]
        (topk,) = (node for node in nodes if node["op"] == ["Topk"])
        attributes = prototext.attributes(topk)
        assert attributes["_user_stream_label"] == {"s": ['线 "1"\n']}
        assert attributes["_enable_inner_parallel"] == {"b": ["true"]}
        assert attributes["k"] == {"i": ["2"]}
        assert {"[i]x0", "[o]y0", "[o]y1"} <= set(attributes)
        (total,) = (node for node in nodes if node["op"] == ["Sum"])
        dims = prototext.attributes(total)["dim"]
        assert dims == {"list": [{"i": ["0", "1"]}]}
    inputs = ("Data", "Unpack")  # the input that packs numbers
    operators = {
        stage: sum(node["op"][0] not in inputs for node in prototext.graph_def(text))
        for stage, text in texts.items()
    }
    assert operators["optimized"] <= operators["original"]


@pytest.mark.checklist("T134")
def test_txt_is_the_engine_s_graph(config, tmp_path) -> None:
    for text in dump(config, "txt", tmp_path).values():
        graph = prototext.engine_graph(text)
        assert re.fullmatch(r"graph_\d+", graph["name"][0])
        kinds = [node["type"][0] for node in graph["op"]]
        assert kinds[:2] == ["Data", "Data"]
        assert kinds[-1] == "NetOutput"
        data = graph["op"][0]["output_desc"][0]
        assert data["dtype"] == ["DT_FLOAT"]
        assert data["shape"] == [{"dim": ["4", "4"]}]


@pytest.mark.checklist("T134")
def test_py_is_a_program(config, tmp_path) -> None:
    for text in dump(config, "py", tmp_path).values():
        ast.parse(text)
        assert re.search(
            r'# File ".*test_dump\.py", line \d+, in function, code: ', text
        )
        assert "## FX Code: %topk" in text
        assert "Topk_0, Topk_1 = ge.Topk(" in text
        assert re.search(r"^ge\.NetOutput\(\[", text, re.MULTILINE)


@pytest.mark.checklist("T117")
@pytest.mark.filterwarnings("ignore")
def test_capture_modes_write_their_own_code(config, tmp_path) -> None:
    config.mode = "reduce-overhead"
    for text in dump(config, "py", tmp_path).values():
        assert "torch.ops.aten.mul.Tensor(arg0_1, 1.5)" in text
        assert "code: c = (x * 1.5).sum(" in text


@pytest.mark.checklist("T117")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["pbtxt", "txt"])
def test_capture_modes_write_nothing_else(config, tmp_path, kind) -> None:
    config.mode = "npugraph_ex"
    text = f"Graph dump for aclGraph only support 'py' type, but got: {kind}"
    with pytest.raises(ValueError, match=text):
        dump(config, kind, tmp_path)


@pytest.mark.checklist("T134")
def test_numbers_grow(config, tmp_path) -> None:
    dump(config, "txt", tmp_path / "first")
    torch._dynamo.reset()
    dump(config, "txt", tmp_path / "second")
    first, second = (
        {int(NAME.fullmatch(p.name)[2]) for p in (tmp_path / n).iterdir()}
        for n in ("first", "second")
    )
    assert max(first) < min(second)


def test_default_folder_is_the_current_one(config, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    config.debug.graph_dump.type = "txt"
    compiled(lambda x: x + 1, config)(torch.randn(3))
    assert len(list(tmp_path.glob("dynamo_*.txt"))) == 2


def test_failure_to_write_does_not_stop(config, tmp_path, capsys) -> None:
    (tmp_path / "file").write_text("")
    config.debug.graph_dump.type = "pbtxt"
    config.debug.graph_dump.path = str(tmp_path / "file" / "folder")
    x = torch.randn(3)
    assert torch.equal(compiled(lambda t: t + 1, config)(x), x + 1)
    assert "dump pbtxt failed" in capsys.readouterr().out


def test_nothing_is_dumped_unasked(config, tmp_path, monkeypatch, debug) -> None:
    monkeypatch.chdir(tmp_path)
    compiled(lambda x: x + 1, config)(torch.randn(3))
    assert not list(tmp_path.iterdir())


@pytest.mark.checklist("T063")
@pytest.mark.parametrize("folds", [True, False])
def test_chains_of_views_are_one_strided_view(config, monkeypatch, folds) -> None:
    """A dump shows a chain of views as one strided view, if the option says so."""

    def f(x):
        y = x.view(2, 6).transpose(0, 1)
        return y.reshape(3, 4) + 1, y.view(6, 2, 1).permute(2, 0, 1) * 2

    config.experimental_config.enable_view_optimize = folds
    x = torch.randn(3, 4)
    shown = pictures(monkeypatch)
    torch.testing.assert_close(compiled(f, config)(x), f(x))
    before, after = shown
    assert all_of(before, "Transpose")
    assert not all_of(before, "AsStrided")
    assert bool(all_of(after, "AsStrided")) == folds
    assert bool(all_of(after, "Transpose")) != folds
    for node in all_of(after, "AsStrided"):
        attributes = node.attributes
        assert node.inputs == ["arg0_1:0"]
        made = x.as_strided(attributes["size"], attributes["stride"])
        base = x.view(2, 6).T
        assert torch.equal(made, base if made.dim() == 2 else base.view(1, 6, 2))


@pytest.mark.checklist("T063")
def test_transposes_that_are_no_views_of_contiguous_values_stay(
    config, monkeypatch
) -> None:
    def f(x):
        return x.transpose(0, 1) + 1

    found = pictures(monkeypatch)
    x = torch.randn(4, 6)[:, ::2]
    torch.testing.assert_close(compiled(f, config)(x), f(x))
    assert all_of(found[1], "Transpose")
