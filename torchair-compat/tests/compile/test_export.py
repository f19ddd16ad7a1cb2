"""Exports of models with torchair's scopes and torch_npu's operators."""

import pytest
import torch
from torch import nn
from torch.export import Dim

import anabranch
import torch_npu
import torchair
from anabranch.trace.trace_file import read_trace


class Quantised(nn.Module):
    """The guide's model of a super kernel. If `weight` is None, it is an argument."""

    def __init__(self, scope, weight=None, options=""):
        super().__init__()
        self.scope, self.options, self.kept = scope, options, weight

    def forward(self, x1, weight, scale, offset, bias, token_scale, weight_scale):
        weight = weight if self.kept is None else self.kept
        with torchair.scope.super_kernel(self.scope, self.options):
            product = torch_npu.npu_quant_matmul(
                x1,
                weight,
                scale,
                offset=offset,
                bias=bias,
                pertoken_scale=token_scale,
                output_dtype=torch.bfloat16,
            )
            gated = torch_npu.npu_dequant_swiglu_quant(
                product, weight_scale=weight_scale
            )
            return gated, product


def inputs(m=8, k=64, n=32):
    x1 = torch.randint(-10, 10, (m, k), dtype=torch.int8)
    x2 = torch.randint(-10, 10, (n, k), dtype=torch.int8).npu().t().contiguous()
    weight = torch_npu.npu_format_cast(x2, 29)
    more = torch.randn(n), None, None, torch.randn(m), torch.randn(m, n)
    return x1, weight, *more


def exported(model, arguments, path, **options):
    anabranch.export(model.eval(), path, arguments, **options)
    return anabranch.load(path)


def leaves(value):
    return torch.utils._pytree.tree_leaves(value)


@pytest.mark.parametrize("kept", [False, True])
def test_the_page_of_super_kernels(tmp_path, kept) -> None:
    arguments = inputs()
    weight = arguments[1] if kept else None
    if kept:
        arguments = (arguments[0], None, *arguments[2:])
    model = Quantised("sp1", weight, "strict-scope-check=abort")
    package = exported(model, arguments, tmp_path / "super")
    [unit] = anabranch.last_report()["super_kernels"]
    assert (unit["name"], unit["launches"]) == ("sp1_0", 2)
    alone = exported(Quantised(None, weight), arguments, tmp_path / "alone")
    assert not anabranch.last_report()["super_kernels"]
    found, launches = package(*arguments), alone(*arguments)
    backend = torchair.get_npu_backend()
    compiled = torch.compile(model, backend=backend, dynamic=False)(*arguments)
    for value, other, wanted in zip(*map(leaves, (found, launches, compiled))):
        assert torch.equal(value, other)
        assert torch.equal(value, wanted)
    # Tracing leaves nothing on the weight in its format: an eager call is still right.
    eager = Quantised(None, weight)(*arguments)
    assert all(map(torch.equal, leaves(eager), leaves(found)))


class Streams(nn.Module):
    """The guide's model of streams."""

    def forward(self, in1, in2, in3, in4):
        add_result = torch.add(in1, in2)
        with torchair.scope.npu_stream_switch("1"):
            torchair.scope.npu_wait_tensor(in4, add_result)
            mm_result = torch.mm(in3, in4)
        mm1 = torch.mm(in3, in4)
        with torchair.scope.npu_stream_switch("2"):
            torchair.scope.npu_wait_tensor(in4, mm_result)
            add2 = torch.add(in3, in4)
        return add_result, mm_result, mm1, add2


@pytest.mark.parametrize("form", ["module", "program", "strict"])
def test_the_page_of_streams(tmp_path, form) -> None:
    arguments = tuple(torch.randn(48, 48, dtype=torch.float16) for _ in range(4))
    model = Streams().eval()
    if form != "module":
        strict = form == "strict"
        model = torch.export.export(model, arguments, strict=strict)
    anabranch.export(model, tmp_path / "p", arguments)
    package = anabranch.load(tmp_path / "p", threads=2)
    with anabranch.profile(tmp_path / "trace.json"):
        added, product, again, sums = package(*arguments)
    [program] = read_trace(tmp_path / "trace.json").programs
    assert {"1", "2"} <= {stream["name"] for stream in program["streams"]}
    in1, in2, in3, in4 = arguments
    assert torch.equal(added, in1 + in2)
    assert torch.equal(sums, in3 + in4)
    assert torch.equal(product, again)
    torch.testing.assert_close(product, in3 @ in4, rtol=2e-3, atol=2e-2)


def test_symbolic_sizes_have_super_kernels(tmp_path) -> None:
    """Like a compiled graph, an export with symbolic sizes has super kernels."""

    class Model(nn.Module):
        def forward(self, x):
            with torchair.scope.super_kernel("sp"):
                return x.softmax(-1).cumsum(0)

    x = torch.randn(5, 8)
    rows = {"dynamic_shapes": {"x": {0: Dim("rows", min=2, max=9)}}}
    package = exported(Model(), (x,), tmp_path / "p", **rows)
    [unit] = anabranch.last_report()["super_kernels"]
    assert unit["symbolic"]
    for size in (2, 5, 5, 9, 5):
        x = torch.randn(size, 8)
        torch.testing.assert_close(package(x), x.softmax(-1).cumsum(0))


def test_a_scope_that_must_be_one_and_can_not(tmp_path) -> None:
    class Model(nn.Module):
        def forward(self, x):
            with torchair.scope.super_kernel("sp", "strict-scope-check=abort"):
                return torch.bernoulli(x.sigmoid()) + 1

    with pytest.raises(anabranch.CompileError, match="(?s)sp.*test_export.py"):
        anabranch.export(
            Model().eval(), tmp_path / "p", (torch.randn(4),), allow_libtorch=True
        )
    assert not (tmp_path / "p").exists()
