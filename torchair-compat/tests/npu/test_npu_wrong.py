"""Wrong dtypes, wrong shapes and missing arguments of torch_npu's operators. The error names
the operator, the argument and, in a graph, the user's line."""

import pytest
import torch

import torch_npu
import torchair

R = torch.randn
bf, f16 = torch.bfloat16, torch.float16


def I8(*s: int) -> torch.Tensor:
    return torch.randint(-5, 5, s, dtype=torch.int8)


def I32(*s: int) -> torch.Tensor:
    return torch.randint(-5, 5, s, dtype=torch.int32)


CASES = []


def wrong(operator, right, word, **changes) -> None:
    """Asserts that `right` with these changes gives an error that contains the word."""
    CASES.append((operator, {**right, **changes}, word))


Q = {"x1": I8(4, 8), "x2": I8(8, 16), "scale": R(16)}
operator = "npu_quant_matmul"
wrong(operator, Q, "x1", x1=R(4, 8))
wrong(operator, Q, "x2", x2=R(8, 16))
wrong(operator, Q, "x1", x1=I8(8))
wrong(operator, Q, "x2", x2=I8(16))
wrong(operator, Q, "x1", x1=I8(1, 1, 1, 1, 1, 4, 8))
wrong(operator, Q, "x2", x2=I8(7, 16))
wrong(operator, Q, "scale", scale=None)
wrong(operator, Q, "scale", scale=R(15))
wrong(operator, Q, "scale", scale=torch.tensor(1.0))
wrong(operator, Q, "scale", scale=R(2, 16))
wrong(operator, Q, "scale", scale=R(16).double())
wrong(operator, Q, "scale", scale=R(16).half())
wrong(operator, Q, "offset", offset=R(15))
wrong(operator, Q, "offset", offset=R(16).half())
wrong(operator, Q, "offset", offset=R(16), output_dtype=bf)
wrong(operator, Q, "offset", offset=torch.tensor(1.0))
wrong(operator, Q, "offset", offset=R(4, 16))
wrong(operator, Q, "pertoken_scale", pertoken_scale=R(5), output_dtype=bf)
wrong(operator, Q, "pertoken_scale", pertoken_scale=R(4, 1), output_dtype=bf)
wrong(operator, Q, "pertoken_scale", pertoken_scale=R(4))
wrong(operator, Q, "pertoken_scale", pertoken_scale=torch.tensor(1.0), output_dtype=bf)
wrong(operator, Q, "bias", bias=R(16))
wrong(operator, Q, "bias", bias=I32(15))
wrong(operator, Q, "bias", bias=I32(3, 1, 16))
wrong(operator, Q, "bias", bias=torch.tensor(1, dtype=torch.int32))
wrong(operator, Q, "bias", bias=I32(1, 16))
B = dict(Q, x1=I8(2, 4, 8), x2=I8(2, 8, 16))
wrong(operator, B, "bias", bias=I32(3, 1, 16))
wrong(operator, B, "bias", bias=I32(2, 4, 16))
wrong(operator, B, "x2", x2=I8(3, 8, 16))
wrong(operator, Q, "group_sizes", group_sizes=[1, 1])
wrong(operator, Q, "group_sizes", group_sizes=[0, 0, 65536])
wrong(operator, Q, "group_sizes", group_sizes=[-1, 0, 0])
wrong(operator, Q, "output_dtype", output_dtype=torch.float64)
wrong(operator, Q, "output_dtype", output_dtype=torch.float32)
wrong(operator, Q, "y_scale", y_scale=R(1))
wrong(operator, Q, "x1_dtype", x1_dtype=torch.int8)
P = {"x1": I32(4, 8), "x2": I32(64, 2), "scale": R(16), "output_dtype": f16}
wrong(operator, P, "output_dtype", output_dtype=None)
wrong(operator, P, "bias", bias=I32(16))
wrong(operator, P, "x2", x2=I32(63, 2))
wrong(operator, P, "offset", offset=R(7, 16).half(), pertoken_scale=R(4))
operator = "npu_trans_quant_param"
wrong(operator, {"scale": R(3)}, "scale", scale=R(3).half())
wrong(operator, {"scale": R(3)}, "round_mode", round_mode=2)
wrong(operator, {"scale": R(3)}, "offset", offset=R(2))
wrong(operator, {"scale": R(3)}, "offset", offset=I8(3))
operator = "npu_dequant_swiglu_quant"
D = {"x": I32(4, 16), "weight_scale": R(1, 16)}
F = {"x": R(4, 16).bfloat16()}
wrong(operator, D, "x", x=I32(4, 15))
wrong(operator, D, "x", x=I32(16))
wrong(operator, D, "x", x=I8(4, 16))
wrong(operator, F, "x", x=R(4, 16).double())
wrong(operator, D, "weight_scale", weight_scale=None)
wrong(operator, D, "weight_scale", weight_scale=R(15))
wrong(operator, D, "weight_scale", weight_scale=R(4, 16))
wrong(operator, D, "weight_scale", weight_scale=torch.tensor(1.0))
wrong(operator, D, "weight_scale", weight_scale=I32(1, 16))
wrong(operator, D, "activation_scale", activation_scale=R(5))
wrong(operator, D, "activation_scale", activation_scale=R(4, 16))
wrong(operator, D, "activation_scale", activation_scale=I32(4))
wrong(operator, D, "bias", bias=R(15))
wrong(operator, D, "bias", bias=R(4, 16))
wrong(operator, F, "bias", bias=R(16))
wrong(operator, F, "activation_scale", activation_scale=R(4))
wrong(operator, F, "quant_scale", quant_scale=R(7))
wrong(operator, F, "quant_scale", quant_scale=R(4, 8))
wrong(operator, F, "quant_scale", quant_scale=I32(8))
wrong(operator, F, "quant_offset", quant_offset=R(7))
wrong(operator, F, "quant_mode", quant_mode=2)
wrong(operator, F, "swiglu_mode", swiglu_mode=3)
wrong(operator, F, "group_index", group_index=torch.tensor([2.0, 2.0]))
wrong(operator, F, "group_index", group_index=torch.tensor([[2, 2]]))
wrong(operator, F, "quant_scale", group_index=torch.tensor([2, 2]), quant_scale=R(3, 8))
wrong(
    operator, D, "weight_scale", group_index=torch.tensor([2, 2]), weight_scale=R(3, 16)
)
wrong(
    operator,
    D,
    "bias",
    group_index=torch.tensor([2, 2]),
    weight_scale=R(2, 16),
    bias=R(16),
)
wrong(operator, F, "quant_offset", group_index=torch.tensor([2, 2]), quant_offset=R(3))
wrong(operator, F, "dst_type", dst_type=99)
wrong(operator, F, "round_mode", round_mode=3)
wrong(operator, F, "activate_dim", activate_dim=0)
operator = "npu_dynamic_quant"
Y = {"input": R(4, 16).half()}
wrong(operator, Y, "input", input=I8(4, 16))
wrong(operator, Y, "input", input=torch.tensor(1.0))
wrong(operator, Y, "smooth_scales", smooth_scales=R(15))
wrong(operator, Y, "smooth_scales", smooth_scales=R(4, 16))
wrong(operator, Y, "smooth_scales", smooth_scales=torch.tensor(1.0))
wrong(operator, Y, "group_index", group_index=torch.tensor([2, 4]))
wrong(
    operator,
    Y,
    "smooth_scales",
    group_index=torch.tensor([2, 4]),
    smooth_scales=R(3, 16),
)
wrong(
    operator,
    Y,
    "group_index",
    group_index=torch.tensor([2.0, 4.0]),
    smooth_scales=R(2, 16),
)
wrong(operator, Y, "dst_type", dst_type=torch.int32)
wrong(operator, Y, "input", input=R(4, 0))
operator = "npu_swiglu"
wrong(operator, {"input": R(4, 16)}, "input", input=R(4, 15))
wrong(operator, {"input": R(4, 16)}, "dim", dim=3)
wrong(operator, {"input": R(4, 16)}, "input", input=I32(4, 16))
operator = "npu_rms_norm"
N = {"self": R(4, 16), "gamma": R(16)}
wrong(operator, N, "gamma", gamma=R(15))
wrong(operator, N, "gamma", gamma=torch.tensor(1.0))
wrong(operator, N, "gamma", gamma=I32(16))
wrong(operator, N, "self", self=I32(4, 16))
for operator in (
    "npu_add_rms_norm",
    "npu_add_rms_norm_cast",
    "npu_add_rms_norm_dynamic_quant",
):
    A = {"x1": R(4, 16).half(), "x2": R(4, 16).half(), "gamma": R(16).half()}
    wrong(operator, A, "x2", x2=R(4, 15).half())
    wrong(operator, A, "x2", x2=R(4, 16))
    wrong(operator, A, "gamma", gamma=R(15).half())
    wrong(operator, A, "gamma", gamma=None)
    wrong(operator, A, "x1", x1=I32(4, 16), x2=I32(4, 16))
operator = "npu_add_rms_norm_dynamic_quant"
wrong(operator, A, "smooth_scale1", smooth_scale1=R(15))
wrong(operator, A, "smooth_scale2", smooth_scale2=R(15))
wrong(operator, A, "beta", beta=R(15))
wrong(operator, A, "output_mask", output_mask=[True])
operator = "npu_add_rms_norm_quant"
Z = dict(A, scales1=R(16).abs(), zero_points1=I32(16))
wrong(operator, Z, "scales1", scales1=None)
wrong(operator, Z, "scales1", scales1=R(15))
wrong(operator, Z, "zero_points1", zero_points1=I32(15))
wrong(operator, Z, "scales2", scales2=R(15))
wrong(operator, Z, "zero_points2", scales2=R(16), zero_points2=I32(15))
wrong(operator, Z, "zero_points2", zero_points2=I32(16))
wrong(operator, Z, "axis", axis=0)
wrong(operator, Z, "beta", beta=R(15))
operator = "npu_quantize"
U = {
    "input": R(4, 16),
    "scales": R(16).abs(),
    "zero_points": I32(16),
    "dtype": torch.qint8,
    "axis": 1,
}
wrong(operator, U, "scales", scales=R(15))
wrong(operator, U, "scales", scales=None)
wrong(operator, U, "zero_points", zero_points=I32(15))
wrong(operator, U, "dtype", dtype=torch.float32)
wrong(operator, U, "axis", axis=2)
wrong(operator, U, "input", input=I32(4, 16))
wrong(operator, U, "scales", scales=R(1, 16))
operator = "npu_weight_quant_batchmatmul"
W = {"x": R(4, 16).half(), "weight": I8(16, 8), "antiquant_scale": R(8).half()}
wrong(operator, W, "x", x=I8(4, 16))
wrong(operator, W, "x", x=R(1, 4, 16).half())
wrong(operator, W, "weight", weight=R(16, 8))
wrong(operator, W, "weight", weight=I8(15, 8))
wrong(operator, W, "antiquant_scale", antiquant_scale=R(7).half())
wrong(operator, W, "antiquant_scale", antiquant_scale=None)
wrong(operator, W, "antiquant_offset", antiquant_offset=R(7).half())
wrong(operator, W, "antiquant_scale", antiquant_group_size=8)
wrong(operator, W, "antiquant_group_size", antiquant_group_size=-8)
wrong(operator, W, "quant_scale", quant_scale=R(7))
wrong(operator, W, "quant_offset", quant_offset=R(8))
wrong(operator, W, "bias", bias=R(7))
wrong(operator, W, "bias", bias=R(4, 8))
operator = "npu_convert_weight_to_int4pack"
wrong(operator, {"weight": I32(4, 16)}, "weight", weight=I32(4, 15))
wrong(operator, {"weight": I32(4, 16)}, "weight", weight=I8(4, 16))
operator = "npu_transpose_batchmatmul"
G = {"input": R(4, 2, 8), "weight": R(4, 8, 16)}
wrong(operator, G, "weight", weight=R(4, 7, 16))
wrong(operator, G, "input", input=R(2, 8))
wrong(operator, G, "perm_x1", perm_x1=[0, 0, 1])
wrong(operator, G, "perm_y", perm_y=[0])
wrong(operator, G, "scale", scale=R(5))
wrong(operator, G, "batch_split_factor", batch_split_factor=3)
wrong(operator, G, "bias", bias=R(16))
wrong(operator, G, "batch_split_factor", batch_split_factor=-1)
wrong(operator, G, "weight", weight=R(3, 8, 16))
wrong(operator, G, "weight", weight=R(4, 8, 16).half())
operator = "npu_rotary_mul"
V = {"self": R(2, 3, 4, 8), "r1": R(2, 3, 1, 8), "r2": R(2, 3, 1, 8)}
wrong(operator, V, "rotary_mode", rotary_mode="x")
wrong(operator, V, "self", self=R(2, 3, 4, 7))
wrong(operator, V, "r1", r1=R(2, 3, 1, 7))
wrong(operator, V, "r2", r2=R(2, 3, 1, 7))
wrong(operator, V, "r1", r1=R(5, 1, 1, 8))
wrong(operator, V, "r1", r1=R(9, 2, 3, 1, 8))
wrong(operator, V, "r2", r2=R(8, 8, 1, 8))
for operator in ("scatter_update", "scatter_update_"):
    S = {
        "self": R(2, 8, 4),
        "indices": torch.tensor([1, 2]),
        "updates": R(2, 1, 4),
        "axis": -2,
    }
    wrong(operator, S, "axis", axis=0)
    wrong(operator, S, "axis", axis=3)
    wrong(operator, S, "updates", updates=R(2, 1, 4).half())
    wrong(operator, S, "updates", updates=R(2, 4))
    wrong(operator, S, "indices", indices=torch.tensor([1, 2, 3]))
    wrong(operator, S, "indices", indices=torch.tensor([1.0, 2.0]))
    wrong(operator, S, "updates", updates=R(2, 1, 5))
    wrong(operator, S, "updates", updates=R(2, 9, 4))
    wrong(operator, S, "updates", updates=R(3, 1, 4), indices=torch.tensor([1, 2, 3]))
for operator in ("npu_scatter_nd_update", "npu_scatter_nd_update_"):
    S = {"self": R(8, 4), "indices": torch.tensor([[1], [2]]), "updates": R(2, 4)}
    wrong(operator, S, "updates", updates=R(2, 5))
    wrong(operator, S, "updates", updates=R(3, 4))
    wrong(operator, S, "updates", updates=R(2, 4).half())
    wrong(operator, S, "indices", indices=torch.tensor([[1.0], [2.0]]))
    wrong(operator, S, "indices", indices=torch.tensor([[1, 1, 1], [2, 2, 2]]))
    wrong(operator, S, "updates", updates=R(4))
    wrong(operator, S, "indices", indices=torch.tensor(1))
operator = "npu_format_cast"
wrong(operator, {"input": R(2, 2), "acl_format": 29}, "format", acl_format=77)


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize(("operator", "arguments", "word"), CASES)
def test_errors_name_the_argument(operator, arguments, word, in_graph) -> None:
    function = getattr(torch_npu, operator)

    def run(arguments):
        rest = dict(arguments)
        first = [rest.pop(name) for name in ("self", "input") if name in rest]
        return function(*first, **rest)  # the user's line

    if in_graph:
        run = torch.compile(run, backend=torchair.get_npu_backend(), dynamic=False)
    with pytest.raises(RuntimeError) as error:
        run(arguments)
    text = str(error.value)
    assert operator in text
    assert word in text.replace(operator, "")
    if in_graph and operator != "npu_format_cast":  # Dynamo traces into this function
        assert "# the user's line" in text
