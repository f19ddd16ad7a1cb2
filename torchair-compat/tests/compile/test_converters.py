"""Scripts that register converters run: their operators' own kernels are called."""

import importlib
import inspect

import pytest
import torch

import torchair
from pictures import compiled
from torchair import ge
from torchair.ge import attr


def test_a_script_with_a_converter_runs() -> None:
    with torch.library._scoped_library("converted", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        torch.library.register_fake("converted::twice", torch.empty_like, lib=library)
        with pytest.warns(UserWarning, match="converter has no effect on this host"):

            @torchair.register_fx_node_ge_converter(torch.ops.converted.twice.default)
            def convert(x, meta_outputs=None):
                return ge.custom_op("Twice", inputs={"x": x}, outputs=["y"])

        x = torch.randn(3)
        found = compiled(lambda x: torch.ops.converted.twice(x) + 1)(x)
        assert torch.equal(found, x * 2 + 1)
    assert inspect.signature(convert).parameters.keys() == {"x", "meta_outputs"}
    assert torchair.register_fx_node_ge_converter(None)(convert) is convert


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"inputs": 3}, "Invalid input type:int vs expect one of [None, dict]"),
        (
            {"inputs": {"x": 3}},
            (
                "Invalid input 'x' type:int vs expect one of"
                " [None, ge.Tensor, list[ge.Tensor]]"
            ),
        ),
        ({"inputs": {"x": [3]}}, "Invalid input 'x'[0] type:int vs expect 'ge.Tensor'"),
        (
            {"attrs": {"x": 3}},
            (
                "Invalid attr 'x' type:int vs expect one of [ge.attr.Bool, ge.attr.DataType,"
                " ge.attr.Float, ge.attr.Int, ge.attr.ListBool, ge.attr.ListDataType,"
                " ge.attr.ListFloat, ge.attr.ListInt, ge.attr.ListListFloat,"
                " ge.attr.ListListInt, ge.attr.ListStr, ge.attr.Str]"
            ),
        ),
        ({"outputs": 3}, "Invalid output type:int vs expect one of [list, tuple]"),
        (
            {"outputs": [3]},
            "Invalid output type:int vs expect one of [str, tuple[str, int]]",
        ),
        (
            {"outputs": [("y",)]},
            "Invalid output type:tuple[str] vs expect tuple[str, int]",
        ),
    ],
)
def test_wrong_custom_operators(arguments, text) -> None:
    with pytest.raises(AssertionError) as error:
        ge.custom_op("Op", **arguments)
    assert str(error.value) == f"{text} for custom op 'Op'."


def test_there_is_no_graph_for_nodes() -> None:
    tensor = ge.Tensor(None)
    for make in (
        lambda: ge.Const(3),
        lambda: ge.Cast(tensor, dst_type=ge.DataType.DT_FLOAT),
        lambda: ge.Clone(tensor),
        lambda: ge.custom_op(
            "Op",
            inputs={"x": tensor, "y": None, "z": [tensor]},
            outputs=["a", ("b", 2)],
            attrs={"k": attr.ListInt([1])},
        ),
    ):
        with pytest.raises(NotImplementedError, match="no graph of IR nodes"):
            make()
    with pytest.raises(AssertionError, match="input '3' need to be Tensor"):
        ge.Clone(3)


def test_attributes() -> None:
    for name in attr.__all__:
        kind = getattr(attr, name)
        assert repr(kind(3)) == f"ge.attr.{name}(3)"
        assert kind(3) == kind(3)
        assert kind(3) != kind(4)
        assert kind(None, 5).value == 5
        with pytest.raises(AssertionError, match=r"Value cannot be None\."):
            kind(None)
    assert attr.Int(3) != attr.Float(3)
    assert attr.Int(attr.Int(3)) == attr.Int(3)
    with pytest.raises(AssertionError, match="Type mismatch: "):
        attr.Int(attr.Float(3))


def test_numbers() -> None:
    numbers = {"DT_FLOAT": 0, "DT_INT16": 6, "DT_BF16": 27, "DT_FLOAT8_E8M0": 37}
    numbers |= {"DT_FLOAT4_E2M1": 40, "DT_MAX": 42, "DT_INT64": 9, "DT_INT4": 29}
    assert {name: int(ge.DataType[name]) for name in numbers} == numbers
    assert ge.Format.FORMAT_UNDEFINED == -1
    assert ge.Format.FORMAT_FRACTAL_NZ == 29
    spec = ge.TensorSpec(torch.empty(2, 3, dtype=torch.bfloat16))
    assert (spec.dtype, spec.rank, spec.size) == (ge.DataType.DT_BF16, 2, [2, 3])


def test_older_places() -> None:
    older = importlib.import_module("torchair.ge_concrete_graph")
    assert older.ge_apis.custom_op is ge.custom_op
    assert older.ge_graph.DataType is ge.DataType
    function = older.fx2ge_converter.declare_supported([])(test_numbers)
    assert function is test_numbers
    assert older.utils.compat_as_bytes_list(["a", b"b"]) == [b"a", b"b"]
