"""The backend calls registered converters, and computes the IR nodes that they make."""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import anabranch
import torchair
from own_operators import define
from pictures import compiled
from torchair import ge
from torchair._impl.ge import converters
from torchair._impl.ge.automatic import automatic_converter
from torchair.ge import attr
from torchair.ge_concrete_graph import ge_apis


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("converted", "DEF") as made:
        yield made


def twice(library: torch.library.Library) -> Any:
    return define(library, "twice(Tensor x) -> Tensor", torch.empty_like)


@pytest.mark.checklist("T130")
def test_a_converter_is_called_for_an_operator_without_a_kernel(library) -> None:
    operator = twice(library)
    seen = []

    @torchair.register_fx_node_ge_converter(operator.default)
    def convert(x, meta_outputs=None):
        seen.append((x.dtype, x.rank, meta_outputs.dtype, meta_outputs.size))
        return ge.custom_op("Mul", inputs={"x1": x, "x2": ge.Const(2.0)}, outputs=["y"])

    x = torch.randn(3, 4)
    assert torch.equal(compiled(lambda x: operator(x) + 1)(x), x * 2 + 1)
    assert seen[0] == (ge.DataType.DT_FLOAT, 2, ge.DataType.DT_FLOAT, [3, 4])
    assert inspect.signature(convert).parameters.keys() == {"x", "meta_outputs"}
    assert torchair.register_fx_node_ge_converter(None)(convert) is convert


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_converter_of_several_nodes_and_results(library, dynamic) -> None:
    operator = define(
        library,
        "shares(Tensor x, Tensor[] more, int axis, *, float scale=2.0) ->"
        " (Tensor, Tensor[])",
        lambda x, more, axis, *, scale=2.0: (
            torch.empty_like(x),
            [x.new_empty(x.shape[0]), torch.empty_like(x, dtype=torch.float64)],
        ),
    )

    @torchair.register_fx_node_ge_converter(operator.default)
    def convert(x, more, axis, *, scale=2.0, meta_outputs):
        assert [type(m) for m in meta_outputs[1]] == [ge.TensorSpec] * 2
        shares = ge.custom_op(
            "SoftmaxV2",
            inputs={"x": x},
            outputs=["y"],
            attrs={"axes": attr.ListInt([axis])},
        )
        joined = ge.custom_op("AddN", [shares, *more])
        flat = ge.custom_op("Reshape", joined, ge.Const([-1]))
        shape = ge.custom_op("Shape", inputs={"x": x}, outputs=["y"])
        shaped = ge_apis.Reshape(flat, shape)
        total = ge_apis.ReduceSumD(shares, axes=[1])
        wide = ge.Cast(ge_apis.Muls(shares, scale), dst_type=ge.DataType.DT_DOUBLE)
        return shaped, [total, ge.Clone(wide)]

    def f(x, y):
        first, (second, third) = operator(x, [y, y], 1)
        return first - 1, second, third

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    shares = x.softmax(1)
    wanted = [shares + y + y - 1, shares.sum(1), shares.double() * 2]
    torch._dynamo.reset()
    run = torch.compile(f, backend=torchair.get_npu_backend(), dynamic=dynamic)
    for found, expected in zip(run(x, y), wanted):
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected)


def weighted(library: torch.library.Library) -> Any:
    """x * [2, 3, 4] + [1, 2, 3]"""
    operator = twice(library)

    @torchair.register_fx_node_ge_converter(operator.default)
    def convert(x):
        product = ge.custom_op("Mul", x, ge.Const([2.0, 3.0, 4.0]))
        return ge.custom_op("Add", product, ge.Const(torch.tensor([1.0, 2.0, 3.0])))

    return operator


@pytest.mark.checklist("T048")
def test_nodes_of_a_converter_are_compiled_in_their_scope(library) -> None:
    operator = weighted(library)

    def f(x):
        with torchair.scope.npu_stream_switch("side"):
            y = operator(x)
        return y + 1

    x = torch.randn(3)
    wanted = x * torch.tensor([2.0, 3, 4]) + torch.tensor([1.0, 2, 3]) + 1
    torch.testing.assert_close(compiled(f)(x), wanted)
    report = anabranch.last_report()
    assert report["fallbacks"] == []
    assert len(report["kernels"]) == 2
    assert all("test_converters.py" in k["location"] for k in report["kernels"])


def test_a_package_has_what_a_converter_makes(library, tmp_path) -> None:
    operator = weighted(library)

    class Model(torch.nn.Module):
        def forward(self, x):
            return operator(x)

    x = torch.randn(3)
    torchair.dynamo_export(x, model=Model(), export_path=str(tmp_path))
    wanted = x * torch.tensor([2.0, 3, 4]) + torch.tensor([1.0, 2, 3])
    found = anabranch.load(str(tmp_path / "export.air"))(x)
    torch.testing.assert_close(found, wanted)


@pytest.mark.checklist("T036", "T130")
def test_a_later_converter_wins_and_dtypes_are_as_promised(library) -> None:
    """The converter registered last is called, and dtypes are those of its annotations."""
    operator = twice(library)
    for factor in (3.0, 2.0):
        # Without an overload's name, the converter serves all overloads.
        @torchair.register_fx_node_ge_converter(operator)
        def convert(x, factor=factor):
            wide = ge.Cast(x, dst_type=ge.DataType.DT_DOUBLE)
            return ge.custom_op("Muls", wide, factor)

    x = torch.randn(5)
    found = compiled(lambda x: operator(x))(x)
    assert found.dtype == torch.float32
    assert torch.equal(found, x * 2)


@pytest.mark.checklist("T035")
@pytest.mark.parametrize(
    ("convert", "text"),
    [
        (lambda x: (x, x), "its result is a tuple and no ge.Tensor"),
        (lambda x: 3, "its result is a int and no ge.Tensor"),
        (lambda x: ge.custom_op("ReduceSumD", x, [0]), "rank 0, the operator returns"),
        (
            lambda x: ge.custom_op("Slice", x, [0], [2]),
            r"sizes \[2\], the operator returns \[3\]",
        ),
        (
            lambda x: ge.custom_op("Unheard", inputs={"x": x}, outputs=["y"]),
            "IR operator Unheard can't be computed on this host",
        ),
        (
            lambda x: ge.custom_op("Add", inputs={"x": x}),
            "Add has no input 'x'; it has",
        ),
        (lambda x: ge.custom_op("Add", x), "Add needs the input 'x2'"),
        (lambda x: ge.custom_op("Muls", x), "Muls needs the attribute 'value'"),
        (lambda x: ge.custom_op("Relu", x, x), "Relu takes 1 inputs and attributes"),
        (lambda x: ge.custom_op("Reshape", x, x), "input 'shape' must be known while"),
        (lambda x: ge.custom_op("Transpose", x, [0, 1]), "Transpose can't be computed"),
    ],
)
def test_what_a_converter_makes_is_checked(library, convert, text) -> None:
    """An error about the nodes of a converter names the node and the user's line."""
    operator = twice(library)
    torchair.register_fx_node_ge_converter(operator.default)(convert)
    with pytest.raises(RuntimeError, match=text) as error:
        compiled(lambda x: operator(x))(torch.randn(3))
    assert "the converter for twice, a call of converted.twice.default: " in str(
        error.value
    )
    assert "test_converters.py" in str(error.value)


@pytest.mark.checklist("T035")
def test_wrong_number_of_results(library) -> None:
    operator = define(
        library,
        "two(Tensor x) -> (Tensor, Tensor)",
        lambda x: (torch.empty_like(x), torch.empty_like(x)),
    )
    torchair.register_fx_node_ge_converter(operator.default)(lambda x: x)
    with pytest.raises(RuntimeError, match="makes 1 results, the operator returns 2"):
        compiled(lambda x: operator(x)[1])(torch.randn(3))


def test_an_own_kernel_stands_in_for_an_unknown_ir_operator(library) -> None:
    operator = twice(library)
    library.impl("twice", lambda x: x * 2, "CPU")

    @torchair.register_fx_node_ge_converter(operator.default)
    def convert(x):
        half_done = ge.custom_op("Relu", x)
        return ge.custom_op("Twice", inputs={"x": half_done}, outputs=["y"])

    x = torch.randn(3)
    with pytest.warns(UserWarning, match="own kernel: .*IR operator Twice can't be"):
        assert torch.equal(compiled(lambda x: operator(x) + 1)(x), x * 2 + 1)


def test_caches_tell_converters_apart(library) -> None:
    operator, digests = twice(library), set()
    for convert in (lambda x: ge_apis.Muls(x, 2.0), lambda x: ge_apis.Muls(x, 3.0)):
        torchair.register_fx_node_ge_converter(operator.default)(convert)
        digests.add(converters.converters_digest())
    assert len(digests) == 2


def test_a_converter_for_an_operator_of_pytorch() -> None:
    target = torch.ops.aten.erfc.default

    @torchair.register_fx_node_ge_converter(target)
    def convert(self):
        return ge.custom_op("Sub", ge.Const(1.0), ge.custom_op("Erf", self))

    try:
        x = torch.randn(6)
        torch.testing.assert_close(compiled(torch.erfc)(x), torch.erfc(x))
    finally:
        converters._converters.pop(target.name())


@pytest.mark.checklist("T132")
@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (
            "nowhere(Tensor x) -> Tensor",
            "No AscendIR Nowhere was found to be registered",
        ),
        ("add(Tensor x) -> Tensor", "it takes 1 tensors, Add takes 2"),
        ("muls(Tensor x, Scalar value) -> Tensor", "'value' is a scalar"),
        ("relu(Tensor x, int n) -> Tensor", "Relu has 0 attributes"),
        ("neg(Tensor x) -> (Tensor, Tensor)", "it returns 2 values, Neg makes 1"),
    ],
)
def test_operators_without_converter_and_kernel(library, schema, text) -> None:
    """The error says why an operator without a converter and a kernel cannot be computed."""
    two = "(Tensor, Tensor)" in schema
    fake = lambda x, *rest: (x.clone(), x.clone()) if two else torch.empty_like(x)
    operator = define(library, schema, fake)
    rest = (3,) if "," in schema.partition(")")[0] else ()
    start = f"Failed to auto-generated converter for {operator.default} to AscendIR: "
    with pytest.raises(RuntimeError, match=f"{start}.*{text}"):
        compiled(lambda x: operator(x, *rest))(torch.randn(3))


@pytest.mark.checklist("T132")
def test_an_operator_has_the_converter_of_its_name(library) -> None:
    """An operator without a converter becomes the IR operator of its name."""
    operator = define(
        library,
        "clip_by_value(Tensor x, Tensor low, Tensor high) -> Tensor",
        lambda x, low, high: torch.empty_like(x),
    )
    x, low, high = torch.randn(9), torch.tensor(-0.5), torch.tensor(0.5)
    found = compiled(lambda *args: operator(*args))(x, low, high)
    assert torch.equal(found, x.clamp(-0.5, 0.5))
    wrong = automatic_converter(operator.default)
    with pytest.raises(RuntimeError, match="Failed to convert torch args to AscendIR"):
        wrong(None, None, None)
    with pytest.raises(RuntimeError, match="it is no OpOverload"):
        automatic_converter(operator)
    with pytest.raises(RuntimeError, match="it is an operator of PyTorch"):
        automatic_converter(torch.ops.aten.add.Tensor)


@pytest.mark.checklist("T131")
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


def test_clones_need_tensors() -> None:
    with pytest.raises(AssertionError, match="input '3' need to be Tensor"):
        ge.Clone(3)
    with pytest.raises(RuntimeError, match="it has no value"):
        ge.Clone(ge.Tensor(None))


@pytest.mark.checklist("T131")
def test_outputs_of_custom_operators() -> None:
    """A custom operator with several results has as many outputs in the graph."""
    x = ge.Const([[1.0, 2.0], [3.0, 4.0]])
    attrs = {"split_dim": attr.Int(1), "num_split": attr.Int(2)}
    parts = ge.custom_op(
        "SplitD", inputs={"x": x}, outputs=[("y", 2)], attrs=attrs, node_name="parts"
    )
    assert [part.value.tolist() for part in parts] == [[[1], [3]], [[2], [4]]]
    assert [(part.node.name, part.index) for part in parts] == [
        ("parts", 0),
        ("parts", 1),
    ]
    inputs = {"x1": x, "x2": x, "bias": None}
    y = ge.custom_op("MatMulV2", inputs=inputs, outputs=["y"])
    assert y.value.tolist() == [[7, 10], [15, 22]]
    assert inputs.keys() == {"x1", "x2", "bias"}
    assert ge.custom_op("Relu", inputs={"x": x}).type == "Relu"
    with pytest.raises(RuntimeError, match="makes 2 tensors for 'y', 3 are asked for"):
        ge.custom_op("SplitD", inputs={"x": x}, outputs=[("y", 3)], attrs=attrs)
    with pytest.raises(RuntimeError, match="Relu has 1 outputs, 2 are asked for"):
        ge.custom_op("Relu", inputs={"x": x}, outputs=["y", "z"])


X = torch.tensor([[-1.5, 0.25, 3.0], [0.5, -2.0, 1.0]])


@pytest.mark.parametrize(
    ("op_type", "args", "expected"),
    [
        ("Add", (X, X), X + X),
        ("Swish", (X, 2.0), X * torch.sigmoid(2 * X)),
        ("Div", (torch.tensor([7, -7]), torch.tensor([2, 2])), torch.tensor([3, -3])),
        ("RealDiv", (X, X), X / X),
        ("GeluV2", (X, "tanh"), torch.nn.functional.gelu(X, approximate="tanh")),
        ("SoftmaxV2", (X, [0, 1]), X.flatten().softmax(0).view(2, 3)),
        ("MatMul", (X, X, None, None, False, True), X @ X.T),
        ("BatchMatMul", (X[None], X[None], None, None, True), (X.T @ X)[None]),
        ("Transpose", (X, [1, 0]), X.T),
        ("Reshape", (X, [3, 1], 1), X.reshape(2, 3, 1)),
        ("Unsqueeze", (X, [0, -1]), X[None, :, :, None]),
        ("Squeeze", (X[None], [0]), X),
        ("ExpandDims", (X, -1), X[..., None]),
        ("Tile", (X, [2, 1]), torch.cat([X, X])),
        ("Slice", (X, [0, 1], [1, -1]), X[:1, 1:]),
        ("ConcatV2", ([X, X], 1), torch.cat([X, X], 1)),
        ("Pack", ([X, X], 1), torch.stack([X, X], 1)),
        ("Fill", ([2, 2], 3.0), torch.full((2, 2), 3.0)),
        ("Empty", ([2, 2],), torch.zeros(2, 2)),
        ("GatherV2", (X, torch.tensor([[2, 0]]), 1), X[:, [[2, 0]]]),
        ("SelectV2", (X > 0, X, -X), X.abs()),
        ("ReduceMean", (X, [1], True), X.mean(1, keepdim=True)),
        ("ReduceMaxD", (X, [0]), X.amax(0)),
        ("Cumsum", (X, 1, True), X.cumsum(1) - X),
        ("Cumsum", (X, 1, False, True), X.flip(1).cumsum(1).flip(1)),
        ("ArgMaxV2", (X, 1, 3), torch.tensor([2, 2], dtype=torch.int32)),
        ("Cast", (X, 3), X.int()),
        ("Bitcast", (X, 3), X.view(torch.int32)),
        ("BroadcastTo", (X[0], [2, 3]), X[0].expand(2, 3)),
        ("ClipByValue", (X, torch.tensor(-1.0), torch.tensor(1.0)), X.clamp(-1, 1)),
        ("LeakyRelu", (X, 0.5), torch.nn.functional.leaky_relu(X, 0.5)),
        ("SquaredDifference", (X, X.flip(0)), (X - X.flip(0)) ** 2),
    ],
)
def test_ir_operators(op_type, args, expected) -> None:
    found = ge.custom_op(op_type, *args).value
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected)


def test_norms() -> None:
    gamma = torch.tensor([1.0, 2.0, 3.0])
    y, rstd = ge.custom_op("RmsNorm", X, gamma)
    wanted = torch.nn.functional.rms_norm(X, (3,), gamma, 1e-6)
    torch.testing.assert_close(y.value, wanted)
    assert rstd.rank == 2
    assert ge.custom_op("AddRmsNorm", X, X, gamma)[2].value.equal(X + X)


@pytest.mark.checklist("T131")
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
