"""Private names that serving code and converters in public code import."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch
from torch import nn
from torch._inductor.compile_fx import make_graph_return_tuple
from torch.fx.passes.split_module import split_module

import npugraph_ex
import torchair
from pictures import compiled


def model(x, w):
    return (x @ w).relu() + 1


INPUTS = torch.randn(4, 5), torch.randn(5, 6)


@pytest.fixture
def codes(monkeypatch) -> list[str | None]:
    """What each compiled graph can be saved as, as vllm-ascend asks for it."""
    module = importlib.import_module("npugraph_ex.npu_fx_compiler")
    original = module._NpuFxCompiler._get_compiled_gm
    found: list[str | None] = []

    def patched(self, graph, example_inputs):
        made = original(self, graph, example_inputs)
        found.append(made.get_code())
        return made

    monkeypatch.setattr(module._NpuFxCompiler, "_get_compiled_gm", patched)
    return found


@pytest.mark.parametrize("force_eager", [True, False])
def test_a_graph_is_saved_and_loaded(codes, force_eager) -> None:
    from npugraph_ex.configs.compiler_config import _process_kwargs_options
    from npugraph_ex.npu_fx_compiler import _CompiledFxArtifacts, _CompiledFxGraph

    config = npugraph_ex.CompilerConfig()
    options = {"force_eager": force_eager, "clone_output": False}
    _process_kwargs_options(config, {"options": options})
    backend = npugraph_ex.get_npu_backend(compiler_config=config)
    function = torch.compile(model, backend=backend, fullgraph=True)
    torch.testing.assert_close(function(*INPUTS), model(*INPUTS))
    artifacts = _CompiledFxArtifacts()
    (artifacts.py_code,) = codes
    assert artifacts.py_code
    loaded = _CompiledFxGraph.load_artifacts(artifacts)
    torch.testing.assert_close(loaded(*INPUTS)[0], model(*INPUTS))
    artifacts.py_code = "print(1)"
    with pytest.raises(ValueError, match="py_code is no text of a compiled graph"):
        _CompiledFxGraph.load_artifacts(artifacts)


def test_pieces_between_opaque_calls(codes) -> None:
    """A splitting backend has each piece of its graph compiled, as vLLM does."""

    def split(module, inputs):
        backend = npugraph_ex.get_npu_backend()
        order = {node: place for place, node in enumerate(module.graph.nodes)}
        parts = split_module(module, module, lambda node: order[node] // 4)
        for name, piece in parts.named_children():
            inputs = piece.graph.find_nodes(op="placeholder")
            values = [node.meta["example_value"] for node in inputs]
            setattr(parts, name, Piece(make_graph_return_tuple(piece, values, backend)))
        return parts

    class Piece(nn.Module):
        def __init__(self, call) -> None:
            super().__init__()
            self.call = call

        def forward(self, *arguments):
            return self.call(*arguments)

    function = torch.compile(model, backend=split, fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(function(*INPUTS), model(*INPUTS))
    assert codes


def test_modules_that_are_patched_and_reloaded(monkeypatch) -> None:
    for package in (npugraph_ex, torchair):
        name = package.__name__
        values = importlib.import_module(f"{name}.core._concrete_graph")
        compiler = importlib.import_module(f"{name}.npu_fx_compiler")
        assert package.core._concrete_graph is values
        monkeypatch.setattr(values, "ValuePack", object)
        importlib.reload(sys.modules[f"{name}.npu_fx_compiler"])
        monkeypatch.setattr(package.npu_fx_compiler, "_unpack_meta", lambda *_: None)
        monkeypatch.setattr(compiler._NpuGraphConverter, "_unpack_npu", None)
        importlib.reload(values)
        pack = values.ValuePack(1, 2)
        assert not values._is_symlist([1, 2])
        assert compiler._unpack_meta_list([pack, 3]) == [1, 3]
    torch.testing.assert_close(compiled(model)(*INPUTS), model(*INPUTS))


def test_values_of_packs() -> None:
    from torchair._impl.surface.captured import (
        NpuGraphConverter,
        ValuePack,
        is_symlist,
        unpack_meta,
    )

    pack = ValuePack(1, 2)
    assert unpack_meta([pack, [pack, 5]], {"key": pack}) == ([1, [1, 5]], {"key": 1})
    made = NpuGraphConverter()._unpack_npu([pack, (pack,)], {"key": pack})
    assert made == ([2, (2,)], {"key": 2})
    assert ValuePack(1).npu == 1
    assert not is_symlist([]) and not is_symlist(3)


def test_converters_by_private_names() -> None:
    from torchair._ge_concrete_graph.fx2ge_converter import (
        declare_supported,
        register_fx_node_ge_converter,
    )

    from torchair._ge_concrete_graph import ge_apis, ge_graph
    from torchair._ge_concrete_graph.supported_declaration import F32, I64, Support
    from torchair.ge._ge_graph import (
        DataType,
        Tensor,
        TensorSpec,
        auto_convert_to_tensor,
        torch_dtype_value_to_ge_proto_type,
        torch_dtype_value_to_ge_type,
    )

    importlib.import_module("torchair._contrib.custom_torch_ops")
    assert ge_graph.Tensor is Tensor and ge_graph.TensorSpec is TensorSpec
    assert torch_dtype_value_to_ge_type(15) == DataType["DT_BF16"]
    assert torch_dtype_value_to_ge_proto_type(torch.int8) == DataType["DT_INT8"]
    with pytest.raises(ValueError, match="no dtype has the number 12345"):
        torch_dtype_value_to_ge_type(12345)

    @auto_convert_to_tensor([False, False], [False, True])
    def plus(x, y=None, *, name=None):
        return x if y is None else ge_apis.Add(x, y)

    with torch.library._scoped_library("private_names", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: torch.empty_like(x), "Meta")
        operator = torch.ops.private_names.twice.default

        @declare_supported([Support(F32(2, 3)), Support(I64(4))])
        @register_fx_node_ge_converter(operator)
        def convert(x: Tensor, meta_outputs: TensorSpec = None):
            return plus(plus(x, 1.0), x)

        x = torch.randn(2, 3)
        found = compiled(lambda x: torch.ops.private_names.twice(x))(x)
        torch.testing.assert_close(found, x + 1 + x)
    with pytest.raises(ValueError, match="plus: x must not be None"):
        plus(None)


class Doubling(nn.Module):
    def __init__(self, options, **more) -> None:
        super().__init__()
        compile_method = npugraph_ex.inference.cache_compile
        self.call = compile_method(self.method, options=options, **more)

    def method(self, x):
        return x * 2


def test_options_of_cached_methods_count(tmp_path) -> None:
    """npugraph_ex.inference.cache_compile takes torch.compile's options."""
    model = Doubling({"force_eager": True}, cache_dir=str(tmp_path))
    with torch.no_grad(), pytest.warns(UserWarning, match="run_eagerly is set"):
        found = model.call(torch.ones(2))
    assert torch.equal(found, torch.full((2,), 2.0))
    with pytest.raises(ValueError, match="Invalid option 'speed'"):
        Doubling({"speed": 1})
    backend = npugraph_ex.get_npu_backend()
    with pytest.raises(
        ValueError, match="give options to the backend's compiler_config"
    ):
        Doubling({"force_eager": True}, backend=backend)
