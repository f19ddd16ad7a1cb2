"""torch_npu: `npu` is a second name of the host's device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import torch_npu

CPU = torch.device("cpu")


def test_tensor() -> None:
    x = torch.randn(3, dtype=torch.float16)
    assert x.npu() is x
    assert x.npu(0) is x
    assert x.npu("npu:0", non_blocking=True) is x
    assert x.npu().device == CPU
    assert x.is_npu
    assert x.npu().cpu() is x


def test_module() -> None:
    module = nn.Linear(3, 4)
    assert module.npu() is module
    assert module.to("npu") is module
    assert module.to(device="npu:0", dtype=torch.float64) is module
    assert module.weight.dtype == torch.float64
    assert module.weight.device == CPU
    assert nn.Linear(3, 4, device="npu").weight.is_npu


@pytest.mark.parametrize("device", ["npu", "npu:0", "cpu", CPU, None])
def test_factories(device) -> None:
    made = [
        torch.zeros(2, device=device),
        torch.empty((2,), device=device),
        torch.full((2,), 1.0, device=device),
        torch.randn(2, device=device),
        torch.tensor([1.0, 2.0], device=device),
        torch.arange(2.0, device=device),
        torch.zeros_like(torch.ones(2), device=device),
        torch.ones(2).to(device=device),
        torch.ones(2).to(device),
        torch.ones(3).new_zeros(2, device=device),
    ]
    assert all(t.device == CPU and t.shape == (2,) for t in made)
    assert torch.equal(made[4], torch.tensor([1.0, 2.0]))


def test_to_takes_what_it_took() -> None:
    x = torch.ones(2)
    assert x.to(torch.float64).dtype == torch.float64
    assert x.to("npu", torch.float64).dtype == torch.float64
    assert x.to(x.double()).dtype == torch.float64
    assert x.to("meta").device.type == "meta"


@pytest.mark.parametrize("device", ["npu:1", 1])
def test_there_is_one_device(device) -> None:
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(2).npu(device)


def test_nonsense_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Invalid device string: 'npu0'"):
        torch.zeros(2, device="npu0")
    with pytest.raises(RuntimeError, match="Expected one of cpu"):
        torch.zeros(2, device="nothing")


def test_torch_npu_module() -> None:
    assert torch.npu is torch_npu.npu
    assert sys.modules["torch.npu"] is torch.npu
    assert torch.npu.is_available()
    assert torch.npu.device_count() == 1
    assert torch.npu.current_device() == 0
    torch.npu.set_device("npu:0")
    with pytest.raises(RuntimeError, match="ordinal"):
        torch.npu.set_device(3)
    torch.npu.synchronize()
    torch.npu.empty_cache()
    torch.npu.manual_seed_all(3)
    assert torch.initial_seed() == 3


def test_streams() -> None:
    mine = torch.npu.Stream()
    assert torch.npu.current_stream() is torch.npu.default_stream()
    with torch.npu.stream(mine):
        assert torch.npu.current_stream() is mine
        mine.wait_stream(torch.npu.default_stream())
        mine.wait_event(mine.record_event())
    assert torch.npu.current_stream() is torch.npu.default_stream()
    limit = torch.npu.get_stream_limit(mine)
    assert set(limit) == {"cube_core_num", "vector_core_num"}
    torch.npu.set_stream_limit(mine, 3, 5)
    assert torch.npu.get_stream_limit(mine)["vector_core_num"] == 5
    torch.npu.reset_stream_limit(mine)
    assert torch.npu.get_stream_limit(mine) == limit


def test_events() -> None:
    first, second = (torch.npu.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(RuntimeError, match="must have been recorded"):
        first.elapsed_time(second)
    first.record()
    second.record()
    assert second.query()
    assert 0 <= first.elapsed_time(second) < 1000
    with pytest.raises(ValueError, match="enable_timing"):
        first.elapsed_time(torch.npu.Event())


def test_inside_of_a_graph() -> None:
    def function(x):
        return x.npu() + torch.ones(4, device="npu") + x.new_zeros(4, device="npu:0")

    compiled = torch.compile(function, backend="eager", fullgraph=True)
    x = torch.randn(4)
    assert torch.equal(compiled(x), function(x))


def test_scripting_still_works() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + torch.zeros([4]) + torch.ones_like(x)

    scripted = torch.jit.script(function)
    assert torch.equal(scripted(torch.ones(4)), torch.full((4,), 2.0))


def run(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    search = os.pathsep.join([*map(str, path), *sys.path])
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("package", ["torchair", "torch_npu"])
@pytest.mark.parametrize("first", [True, False])
def test_a_real_torch_npu_is_not_hidden(tmp_path, package, first) -> None:
    real = tmp_path / "torch_npu"
    real.mkdir()
    (real / "__init__.py").write_text("print('the real one')")
    code = f"import sys; sys.path.append({str(tmp_path)!r}); import {package}"
    done = run(code, *([tmp_path] if first else []))
    if first and package == "torch_npu":
        assert done.stdout == "the real one\n"
    else:
        assert "never hides a real torch_npu" in done.stderr
        assert done.returncode == 1


def test_an_installed_torch_npu_is_not_hidden(tmp_path) -> None:
    info = tmp_path / "torch_npu-2.6.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torch-npu\nVersion: 2.6.0\n"
    )
    done = run("import torchair", tmp_path)
    assert "torch-npu 2.6.0 is installed" in done.stderr


def test_torchair_goes_by_its_other_name() -> None:
    code = """
import torch_npu.dynamo.torchair as other
from torch_npu.dynamo.torchair.configs.compiler_config import CompilerConfig
from torch_npu.dynamo.torchair.core.utils import logger
import torchair, torch_npu
assert other is torchair is torch_npu.dynamo.torchair
assert CompilerConfig is torchair.CompilerConfig and logger is torchair.logger
"""
    done = run(code)
    assert not done.stderr


def test_transformers_imports_beside_it():
    """transformers looks for torch_npu, and then for an operator in it."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        vocab_size=8,
    )
    with torch.no_grad():
        output = BertModel(config).eval()(torch.tensor([[1, 2]]))
    assert output.last_hidden_state.shape == (1, 2, 8)


@pytest.mark.parametrize("first", ["torchair", "npugraph_ex", "torch_npu"])
def test_one_import_is_enough(first) -> None:
    code = f"""
import {first}, torch
x = torch.ones(2).npu()
assert torch.npu.is_available() and x.is_npu
assert torch.npu.npugraph_ex.CompilerConfig
assert torch.equal(torch.ops.npu.npu_rms_norm(x, x)[0].round(), x)
import torch_npu, torchair
assert torch_npu.dynamo.torchair is torchair and torch_npu.npu is torch.npu
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_importing_torch_brings_no_npu() -> None:
    done = run("import torch; assert not hasattr(torch, 'npu')")
    assert done.returncode == 0, done.stderr


def test_the_venv_has_it_unless_told_otherwise(tmp_path) -> None:
    """`python script.py` finds torch_npu without a path, unless ANABRANCH_NO_NPU is set."""
    outside = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    for hidden in ("", "1"):
        done = subprocess.run(
            [sys.executable, "-c", "import torch_npu, torchair, npugraph_ex"],
            env=outside | {"ANABRANCH_NO_NPU": hidden},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == bool(hidden), done.stderr
