"""Our kernels run every pointwise operator of core ATen, and the variants of other
families that the compiler promises, in every dtype that eager has.
"""

from __future__ import annotations

import opinfo
import pytest
import torch
from operator_rows import DTYPES, TABLE, names, overload

import anabranch


def core_pointwise() -> list[str]:
    found = []
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        if not isinstance(packet, torch._ops.OpOverloadPacket):
            continue
        for variant in packet.overloads():
            target = getattr(packet, variant)
            # Left out: functionalization leaves no operator that writes into an argument.
            if {torch.Tag.core, torch.Tag.pointwise} <= set(target.tags) and (
                not target._schema.is_mutable
            ):
                found.append(name if variant == "default" else f"{name}.{variant}")
    return found


CORE = core_pointwise()
SAMPLES = {row["op"]: row["samples"] for row in TABLE}

# Beyond the samples of the table: dimensions, keepdim, dtype, empty and 0-d.
VARIANTS = {
    "sum": "T(); T(0, 3)",
    "sum.dim_IntList": "T(3, 5), [-1]; T(3, 5), []; T(2, 3, 4), [0, 2], True;"
    "T(3, 5), [0], dtype=torch.float32; T(0, 3), [0]; T(0, 3), [1]; T(), [0]",
    "mean": "T()",
    "mean.dim": "T(2, 3, 4), [-1, 0]; T(2, 3, 4), [1], True;"
    "T(2, 3), [0], dtype=torch.float32; T(), [0]; T(0, 3), [1]",
    "var.correction": "T(3, 4), None, correction=1; T(3, 4), [-1], correction=0;"
    "T(2, 3, 4), [0, 2], correction=1, keepdim=True",
    "amax": "T(2, 3, 4), [0, -1]; T(2, 3, 4), [1], True; T(3, 4); T(), []; T(0, 3), [1]",
    "amin": "T(2, 3, 4), [0, -1]; T(2, 3, 4), [1], True; T(3, 4); T(), [0]",
    "prod": "T(3, 2); T(); T(3, 2), dtype=torch.float64",
    "prod.dim_int": "T(3, 2), -1; T(3, 2), 0, True; T(0, 2), 0; T(), 0",
    "any": "T(3, 4); T(); T(0)",
    "any.dim": "T(3, 4), -1; T(3, 4), 0, True; T(), 0; T(0, 3), 0",
    "any.dims": "T(2, 3, 4), [0, -1]; T(3, 4), [1], True; T(3, 4); T(3, 4), []",
    "all": "T(3, 4); T(); T(0)",
    "all.dim": "T(3, 4), -1; T(3, 4), 0, True; T(0, 3), 0",
    "all.dims": "T(2, 3, 4), [0, -1]; T(3, 4), [1], True; T(3, 4); T(3, 4), []",
    "argmax": "T(3, 4); T(3, 4), -1; T(3, 4), 0, True; T(); T(2, 3), None, True",
    "argmin": "T(3, 4); T(3, 4), -1; T(3, 4), 0, True; T()",
    "max.dim": "T(3, 4), -1; T(3, 4), 0, True; T(), 0",
    "min.dim": "T(3, 4), -1; T(3, 4), 0, True; T(), 0",
    "linalg_vector_norm": "T(3, 4); T(3, 4), 1, [0]; T(3, 4), 0, [-1], True;"
    "T(3, 4), float('inf'), [0, 1]; T(3, 4), -float('inf'), [1]; T(3, 4), 3.5, [1];"
    "T(3, 4), 2, None, False, dtype=torch.float64",
    "cumsum": "T(3, 4), -1; T(3, 4), 0; T(), 0; T(0, 3), 0;"
    "T(3, 4), 0, dtype=torch.float32",
    "cumprod": "T(3, 4), -1; T(3, 4), 0",
    "logsumexp": "T(3, 4), [0, 1]; T(3, 4), [-1], True",
    "logcumsumexp": "T(3, 4), -1; T(3, 4), 0",
    "cummax": "T(3, 4), -1; T(3, 4), 0",
    "cummin": "T(3, 4), -1; T(3, 4), 0",
    "var_mean.correction": "T(3, 4), [-1], correction=0; T(3, 4), None, correction=1",
    "std_mean.correction": "T(3, 4), [-1], correction=0, keepdim=True",
    "view": "T(2, 6), [3, -1]; T(4), [2, 1, 2]; T(0, 3), [3, 0]; T(), [1]",
    "permute": "T(2, 3, 4), [2, 0, 1]; T(2, 3), [-1, 0]; T(), []",
    "transpose.int": "T(2, 3, 4), 0, -1; T(), 0, 0",
    "expand": "T(3, 1), [2, 3, 4]; T(), [2]; T(1, 3), [-1, 3]",
    "squeeze.dims": "T(1, 3, 1), [0, -1]; T(), [0]",
    "squeeze.dim": "T(3, 1), -1; T(3, 1), 0",
    "unsqueeze": "T(3), -1; T(), 0",
    "select.int": "T(3, 4), 0, -1; T(3, 4), -1, 2",
    "slice.Tensor": "T(5, 4), 0, -3, -1; T(5, 4), 1, 0, 99, 3; T(5), 0, 4, 2;"
    "T(5), -1, None, None, 2",
    "diagonal": "T(3, 4); T(3, 4), 1; T(2, 3, 4), -1, 0, 2",
    "as_strided": "T(3, 4), [2, 2], [4, 1]; T(3, 4), [2, 2], [1, 5], 1",
    "cat": "[T(2, 3), T(4, 3)]; [T(2, 3), T(2, 1)], -1; [T(0), T(2, 3)]; [T(3)]",
    "stack": "[T(3), T(3)]; [T(), T()], -1",
    "split.Tensor": "T(5, 2), 2; T(4, 3), 2, -1",
    "split_with_sizes": "T(5, 2), [1, 4]; T(2, 5), [2, 0, 3], -1",
    "constant_pad_nd": "T(2, 3), [1, 2]; T(2, 3), [-1, 1, 2, 0], 3; T(0, 3), [1, 1]",
    "flip": "T(3, 4), [0]; T(3, 4), [-1, 0]; T(), [0]",
    "roll": "T(3, 4), [1]; T(3, 4), [2, -1], [0, 1]",
    "repeat": "T(2, 3), [2, 1, 2]; T(), [3]; T(2), [0]",
    "slice_scatter": "T(5, 4), T(2, 4), 0, 1, 5, 2; T(5), T(2), -1, -2",
    "select_scatter": "T(3, 4), T(4), 0, -1; T(3, 4), T(3), 1, 2",
    "gather": "T(3, 4), 0, I(3, 2, 4); T(3, 4), -1, I(4, 3, 6); T(), 0, I(1);"
    "T(), -1, I(1, 3); T(3), 0, I(3, 0)",
    "scatter.src": "T(3, 4), 0, I(3, 2, 4), T(2, 4); T(), 0, I(1), T()",
    "scatter.value": "T(3, 4), -1, I(4, 3, 2), 1; T(), 0, I(1), 1",
    "scatter_add": "T(3, 4), 0, I(3, 5, 4), T(5, 4); T(), 0, I(1), T()",
    "scatter_reduce.two": "T(3, 4), 0, I(3, 5, 4), T(5, 4), 'sum';"
    "T(3, 4), 0, I(3, 5, 4), T(5, 4), 'prod', include_self=False;"
    "T(3, 4), 0, I(3, 5, 4), T(5, 4), 'amax';"
    "T(3, 4), 0, I(3, 5, 4), T(5, 4), 'amin', include_self=False;"
    "T(3, 4), 0, I(3, 5, 4), T(5, 4), 'mean';"
    "T(3, 4), 0, I(3, 5, 4), T(5, 4), 'mean', include_self=False",
    "index.Tensor": "T(4, 5), [I(4, 2), I(5, 3, 1)]; T(4, 5), [None, I(5, 2, 2)];"
    "T(4, 5, 6), [I(4, 2), None, I(6, 2)]; T(4), [I(4, 0)]; T(4), [I(4)]",
    "index_put": "T(4, 5), [I(4, 2)], T(2, 5); T(4, 5), [I(4, 2), I(5, 2)], T();"
    "T(4, 5), [None, I(5, 3)], T(4, 1), True; T(4, 5), [B(4, 5)], T()",
    "index_select": "T(3, 4), -1, I(4, 2); T(3, 4), 0, I(3); T(3), 0, I(3, 0)",
    "index_add": "T(3, 4), 0, I(3, 5), T(5, 4); T(3, 4), -1, I(4, 2), T(3, 2)",
    "embedding": "T(5, 3), I(5); T(5, 3), I(5, 0); T(5, 3), I(5, 2, 2)",
    "where.self": "B(3), T(2, 1), T(3); B(), T(), T(2)",
    "masked_fill.Scalar": "T(3), B(2, 3), 1",
    "masked_fill.Tensor": "T(2, 3), B(3), T()",
    "arange.start_step": "0, 7, 2, dtype=dtype",
    "full": "[2, 3], 1, dtype=dtype; [], 1, dtype=dtype; [0], 1, dtype=dtype",
    "clamp": "T(3, 4), 1, None; T(3, 4), 1, 0; T(3, 4), 0.5, 1",
    "clamp.Tensor": "T(3, 4), T(4), None; T(3, 4), None, T(3, 1)",
    "pow.Tensor_Tensor": "P(3, 4), P(4)",
    "add.Tensor": "T(3), T(), alpha=2; T(), T()",
    "mul.Tensor": "T(3, 4), T(); T(0, 3), T(3)",
    "div.Tensor_mode": "T(3, 5), P(5), rounding_mode=None",
}


def calls(rows: dict[str, str], dtype: str):
    """(operator, sample, eager's results) of each sample that eager can run."""
    known = names(DTYPES[dtype])
    for name, samples in rows.items():
        for text in filter(None, map(str.strip, samples.split(";"))):
            args, kwargs = eval(f"call({text})", known)
            target = overload(name)
            call = target if args and torch.is_tensor(args[0]) else _first(target)
            sample = opinfo.as_sample(call, opinfo.Call(args[0], args[1:], kwargs))
            for _, wanted in opinfo.eager([sample]):
                yield f"{name}({text})", sample, wanted


def _first(target):
    return lambda first, *args, **kwargs: target(first, *args, **kwargs)


def run(rows: dict[str, str], dtype: str, dynamic: bool) -> None:
    found = list(calls(rows, dtype))
    samples = [sample for _, sample, _ in found]
    for (name, sample, wanted), actual in zip(
        found, opinfo.run_together(samples, dynamic), strict=True
    ):
        try:
            opinfo.compare(sample, actual, wanted)
        except AssertionError as error:
            pytest.fail(f"{name}: {error}")
    report = anabranch.last_report()
    assert anabranch.counters.eager_graphs == 0, report
    fallbacks = {
        f"{entry['op']}: {entry.get('reason')}" for entry in report["fallbacks"]
    }
    assert not fallbacks, "\n".join(sorted(fallbacks))


def test_every_core_pointwise_operator_has_a_row_with_samples():
    assert not [name for name in CORE if not SAMPLES.get(name)]


# The kinds of dtypes. The other dtypes of pointwise rows are in test_operators.py.
KINDS = ("f32", "bf16", "i64", "u8", "bool")


def with_kinds(dtypes):
    return [
        d if d in KINDS else pytest.param(d, marks=pytest.mark.soak) for d in dtypes
    ]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", with_kinds(DTYPES))
def test_pointwise(dtype):
    run({name: SAMPLES[name] for name in CORE}, dtype, dynamic=False)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", with_kinds(DTYPES))
def test_variants(dtype):
    run(VARIANTS, dtype, dynamic=False)
