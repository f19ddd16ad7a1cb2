"""The public names are TorchAir's, and there are no others."""

from __future__ import annotations

import ctypes
import importlib
import re
import types

import pytest
import torch

import torchair
from pictures import compiled

NAMES = {
    "torchair": "CompilerConfig get_npu_backend logger get_compiler dynamo_export"
    " use_internal_format_weight register_fx_node_ge_converter patch_for_hcom"
    " register_replacement npu_format_cast_via_cpu",
    "torchair.configs.compiler_config": "CompilerConfig",
    "torchair.core.utils": "logger EVENT_LEVEL",
    "torchair.scope": "npu_stream_switch npu_wait_tensor super_kernel limit_core_num"
    " op_never_timeout data_dump",
    "torchair.inference": "set_dim_gears cache_compile readable_cache",
    "torchair.ops": "record wait npu_print npu_create_tagged_event"
    " npu_tagged_event_record npu_tagged_event_wait npu_record_tagged_stream"
    " npu_fused_infer_attention_score npu_fused_infer_attention_score_v2",
    "torchair.ge": "custom_op Const Cast Clone DataType Format Tensor TensorSpec attr",
    "torchair.llm_datadist": "create_npu_tensors",
    "torchair.tools.gegraph_check": "align_trace deadlock_check filter_operators",
    "torchair.tools.gegraph_check.align_trace": "align_trace_json",
    "torchair.tools.gegraph_check.deadlock_check": "deadlock_check",
    "torchair.tools.gegraph_check.filter_operators": "filter_comm_ops",
    "npugraph_ex": "CompilerConfig compile_fx get_compiler get_npu_backend"
    " register_replacement logger inference scope",
    "npugraph_ex.inference": "cache_compile readable_cache",
    "npugraph_ex.scope": "limit_core_num",
    "npugraph_ex.configs.compiler_config": "CompilerConfig",
    "npugraph_ex.core.utils": "logger EVENT_LEVEL",
    "torchair.ge_concrete_graph.ge_graph": "Tensor TensorSpec DataType"
    " get_default_ge_graph next_unique_name compat_as_bytes compat_as_bytes_list"
    " get_invalid_desc auto_convert_to_tensor",
    "torchair.ge_concrete_graph.utils": "compat_as_bytes compat_as_bytes_list"
    " get_invalid_desc auto_convert_to_tensor dtype_promote",
    "torchair.ge_concrete_graph.fx2ge_converter": "register_fx_node_ge_converter"
    " declare_supported",
}


@pytest.mark.checklist("T001", "T019")
@pytest.mark.parametrize("name", NAMES)
def test_public_names(name) -> None:
    module = importlib.import_module(name)
    assert set(NAMES[name].split()) <= set(module.__all__)
    public = {n for n in dir(module) if not n.startswith("_")} - {"annotations"}
    own = {
        n
        for n in public
        if isinstance(getattr(module, n), types.ModuleType)
        and getattr(module, n).__name__ == f"{name}.{n}"
    }
    assert public - own <= set(module.__all__)


def test_public_names_are_of_public_modules() -> None:
    for name in ("torchair", "torchair.scope", "torchair.inference", "torchair.ops"):
        module = importlib.import_module(name)
        for value in (getattr(module, exported) for exported in module.__all__):
            if isinstance(value, types.FunctionType | type):
                assert value.__module__.startswith(name)
                assert "._" not in value.__module__


def test_helpers_of_converters() -> None:
    graph = importlib.import_module("torchair.ge_concrete_graph.ge_graph")
    names = [graph.next_unique_name("Names", "Add") for _ in range(3)]
    assert names == ["Names", "Names_1", "Names_2"]
    with pytest.raises(NotImplementedError, match=r"get_default_ge_graph\(\) edits"):
        graph.get_default_ge_graph()


def test_tensors_over_addresses() -> None:
    memory = (ctypes.c_float * 12)(*range(12))
    address = ctypes.addressof(memory)
    first, second = torchair.llm_datadist.create_npu_tensors(
        [2, 3], torch.float32, [address, address + 24]
    )
    assert torch.equal(torch.stack([first, second]).flatten(), torch.arange(12.0))
    first[0, 0] = 7
    assert memory[0] == 7
    [empty] = torchair.llm_datadist.create_npu_tensors([0], torch.float32, [0])
    assert empty.shape == (0,)
    for arguments, error, text in (
        ((3, torch.float32, [1]), TypeError, "shape only support"),
        (([2], torch.float32, [1.5]), TypeError, "addresses inner type only support"),
        (([2], "f", [1]), TypeError, "dtype only support"),
        (([2], torch.complex64, [1]), ValueError, "unsupported dtype"),
        (([2], torch.float32, [0]), RuntimeError, "no memory"),
    ):
        with pytest.raises(error, match=text):
            torchair.llm_datadist.create_npu_tensors(*arguments)


@pytest.mark.checklist("T034")
def test_inputs_that_are_no_tensors() -> None:
    run = torchair.get_compiler()(
        torch.fx.symbolic_trace(lambda x: (x + 1,)), [torch.ones(2)]
    )
    with pytest.raises(RuntimeError, match="element 0 is None"):
        run(None)
    with pytest.raises(RuntimeError, match="element 0 is not a Tensor"):
        run(3)


@pytest.mark.checklist("T038")
def test_hints_of_sizes_are_logged(debug, capsys) -> None:
    def function(x, n):
        return x + n

    compiled(function, dynamic=True)(torch.ones(2, 3), 5)
    log = capsys.readouterr().out
    assert re.search(r"ge.inputHintShape = .*\d:\[2, 3\]", log)
    assert re.search(r"ge.inputHintShape = .*\d:\[\]", log)
