"""The names of the table are in the packages, and do what the table says."""

from __future__ import annotations

import importlib
import warnings

import pytest
import script_server
import torch

import torch_npu
import torchair
from torchair._impl.surface.table import NOTHING, REFUSED, ROWS, WORKS


def found(name: str):
    home, _, leaf = name.rpartition(".")
    return getattr(importlib.import_module(home), leaf)


def test_names_are_once_in_the_table() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_name_does_what_the_table_says(row) -> None:
    value = found(row.name)
    if row.kind == WORKS:
        assert value is row.value
    elif row.kind == NOTHING:
        with pytest.warns(UserWarning, match=f"{row.name} has no effect on this host"):
            assert value("anything", key=1) == row.value
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value()
    else:
        assert row.kind == REFUSED
        with pytest.raises(
            NotImplementedError, match=f"{row.name} is not on this host"
        ):
            value(torch.ones(2))


ALONE = "import sys\nassert 'torch_npu' not in sys.modules\n"


def test_modules_are_importable_first(tmp_path) -> None:
    """In a process in which nothing has imported torch_npu yet."""
    for line in (
        "from torch_npu.utils.cpp_extension import NpuExtension",
        "import torch_npu.npu.utils as utils; utils.get_soc_version()",
        "from torch_npu._C._distributed_c10d import ProcessGroupHCCL",
        "from torch_npu.op_plugin.atb._atb_ops import _register_atb_extensions",
    ):
        status, said = script_server.run(tmp_path, ALONE + line)
        assert status == 0, said


@pytest.mark.parametrize("fullgraph", [True, False])
def test_refused_names_say_so_inside_dynamo(fullgraph) -> None:
    def train(x):
        return torch_npu.npu_swiglu_backward(x) + 1

    def unknown(x):
        return torch_npu.npu_dynamic_quan(x) + 1

    backend = torchair.get_npu_backend()
    like = "has no attribute 'npu_dynamic_quan' on this host. Names like it: npu_"
    # Dynamo keeps the line of an AttributeError, and drops its text.
    missing = r"AttributeError(.|\n)*torch_npu.npu_dynamic_quan" if fullgraph else like
    for function, text in (
        (train, "torch_npu.npu_swiglu_backward is not on this host: it computes grad"),
        (unknown, missing),
    ):
        call = torch.compile(function, backend=backend, fullgraph=fullgraph)
        with pytest.raises(Exception, match=text):
            call(torch.ones(2))


def test_the_name_of_the_npu(monkeypatch) -> None:
    assert "910_93" in torch.npu.get_device_name()
    assert torch_npu._C._npu_get_soc_version() == 250
    monkeypatch.setenv("ANABRANCH_NPU_NAME", "Ascend910B3")
    assert torch.npu.get_device_name(0) == "Ascend910B3"
    assert torch.npu.get_device_properties().name == "Ascend910B3"
    assert torch.npu.get_soc_version() == 223
    monkeypatch.setenv("ANABRANCH_NPU_NAME", "Ascend950PR_9599")
    assert torch.npu.get_soc_version() == 260
    monkeypatch.setenv("ANABRANCH_NPU_NAME", "A100")
    with pytest.raises(ValueError, match="ANABRANCH_NPU_NAME must be .*, got 'A100'"):
        torch.npu.get_soc_version()
    with pytest.raises(ValueError, match="got 'H100'"):
        torch.npu.set_device_name("H100")


def test_a_call_names_the_npu(tmp_path) -> None:
    text = (
        "import torch, torch_npu\n"
        "torch.npu.set_device_name('Ascend910B1')\n"
        "assert torch.npu.get_device_name() == 'Ascend910B1'\n"
        "assert torch.npu.get_soc_version() == 220\n"
    )
    status, said = script_server.run(tmp_path, ALONE + text)
    assert status == 0, said


def test_memory() -> None:
    pool = torch.npu.MemPool()
    with torch.npu.use_mem_pool(pool):
        x = torch.ones(2, device="npu")
    reference = torch_npu._C._weak_ref_tensor(x)
    assert reference.data_ptr() == x.data_ptr()
    with pytest.raises(TypeError, match="pool must be a torch.npu.MemPool"):
        torch.npu.use_mem_pool(3).__enter__()
    swapped = torch_npu.empty_with_swapped_memory([2, 2], dtype=torch.float32)
    assert swapped.fill_(3.14).shape == (2, 2)
    made = torch_npu.empty_with_format(
        size=(2, 3), dtype=torch.float16, device="npu", acl_format=29
    )
    assert made.dtype == torch.float16
    assert torch_npu.get_npu_format(made) == torch_npu.Format.FRACTAL_NZ
    seen = []
    torch.npu._launch_host_func(None, seen.append, 5)
    assert seen == [5]
    state = torch.npu.get_rng_state()
    first = torch.rand(3)
    torch.npu.set_rng_state(state)
    assert torch.equal(torch.rand(3), first)


def test_marks_are_ranges_of_a_profile() -> None:
    with torch.profiler.profile() as profile:
        torch.npu.mstx.mark("point")
        number = torch.npu.mstx.range_start("outer")
        torch.npu.mstx.range_push("inner")
        assert torch.npu.mstx.range_pop() == 0
        torch.npu.mstx.range_end(number)
        with torch.npu.mstx.mstx_range("block"):
            torch.ones(2)
    names = {event.key for event in profile.key_averages()}
    assert {"point", "outer", "inner", "block"} <= names
    assert torch.npu.mstx.range_pop() == -1


def test_extensions_are_of_the_host(tmp_path) -> None:
    source = tmp_path / "a.cpp"
    source.write_text("")
    made = torch_npu.utils.cpp_extension.NpuExtension(
        "own", [str(source)], libraries=["ascendcl", "m"]
    )
    assert made.name == "own"
    assert "m" in made.libraries
    assert "ascendcl" not in made.libraries


def test_options_of_the_runtime() -> None:
    assert torch_npu._C._npu_getOption("ALLOW_INTERNAL_FORMAT") == b"enable"
    assert torch_npu._C._npu_getOption("OTHER") == b""
    assert torch.npu.config.allow_internal_format is True
