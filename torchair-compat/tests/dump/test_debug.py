"""TORCH_COMPILE_DEBUG writes files of each compilation."""

import re

import pytest
import torch

import torchair
from programs import run_script

SCRIPT = """
import torch, torch_npu, torchair

config = torchair.CompilerConfig()
config.mode = MODE
config.post_grad_custom_pre_pass = lambda module, inputs, config: None
backend = torchair.get_npu_backend(compiler_config=config)


def model(x):
    with torchair.scope.npu_stream_switch("1"):
        return (x.exp() * 2).sum()


torch.compile(model, backend=backend)(torch.ones(4, requires_grad=True)).backward()
torch.compile(lambda: torch.ones(2) * 3, backend=backend)()
"""


PASSES = (
    "post_grad_custom_pre_pass",
    "optimize_noop_ops",
    "apply_pattern_passes",
    "resolve_marks",
)


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.mark.checklist("T123")
@pytest.mark.parametrize("mode", ["max-autotune", "npugraph_ex"])
def test_what_is_written(tmp_path, monkeypatch, mode) -> None:
    monkeypatch.setenv("TORCH_COMPILE_DEBUG", "1")
    run_script(tmp_path, SCRIPT.replace("MODE", repr(mode)))
    [root] = (tmp_path / "torch_compile_debug").glob("run_*-pid_*/torchair")
    found = files(root)
    expected = ["debug.log"]
    for model, phases in (("0", ["forward", "backward"]), ("1", ["forward"])):
        expected.append(f"model__{model}/dynamo_out_graph.txt")
        for phase in phases:
            start = f"model__{model}/{phase}/"
            names = [f"aot_{phase}_graph.txt"]
            names += [f"aot_{phase}_graph_after_{name}.txt" for name in PASSES]
            if mode == "max-autotune":
                stages = "original", "optimized"
                names += [f"dynamo_{stage}_graph.pbtxt" for stage in stages]
            else:
                expected.append(f"{start}output_code.py")
            expected += [f"{start}{n:03d}_{name}" for n, name in enumerate(names)]
    assert found == sorted(expected)
    assert "Compiling concrete graph 1" in (root / "debug.log").read_text()
    text = (root / "model__0/forward/000_aot_forward_graph.txt").read_text()
    assert re.search(r"torch\.ops\.air\.scope_enter", text)
    after = root / f"model__0/forward/004_aot_forward_graph_after_{PASSES[-1]}.txt"
    assert "scope_enter" not in after.read_text()


@pytest.mark.parametrize("value", ["true", "2", "0"])
def test_other_values_write_nothing(tmp_path, monkeypatch, value) -> None:
    monkeypatch.setenv("TORCH_COMPILE_DEBUG", value)
    monkeypatch.chdir(tmp_path)
    run = torch.compile(lambda x: x + 1, backend=torchair.get_npu_backend())
    run(torch.ones(3))
    assert not files(tmp_path)
