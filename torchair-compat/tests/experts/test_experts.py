"""Operators of expert mixtures and activations equal loops in float64."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from agreement import both


@pytest.mark.parametrize("shape", [(7, 5), (2, 3, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gates(shape, dtype) -> None:
    x = torch.randn(shape, dtype=dtype)
    finished = torch.rand(shape[:-1]) < 0.5
    values, experts, rows = both(
        lambda x, f: torch_npu.npu_moe_gating_top_k_softmax(x, f, k=3), x, finished
    )
    wanted = torch.softmax(x.double(), -1).sort(-1, descending=True)
    torch.testing.assert_close(
        values.double(), wanted[0][..., :3], atol=4e-3, rtol=8e-3
    )
    assert (values.dtype, experts.dtype, rows.dtype) == (dtype, *[torch.int32] * 2)
    probabilities = torch.softmax(x.double(), -1)
    for place in range(finished.numel()):
        row = experts.reshape(-1, 3)[place]
        if finished.reshape(-1)[place]:
            assert row.tolist() == [shape[-1]] * 3
        else:
            taken = probabilities.reshape(-1, shape[-1])[place][row.long()]
            torch.testing.assert_close(
                taken, wanted[0].reshape(-1, shape[-1])[place, :3]
            )
        assert rows.reshape(-1, 3)[place].tolist() == [
            place + j * finished.numel() for j in range(3)
        ]


@pytest.mark.parametrize("active", [0, 2, 5, 99])
def test_a_mixture_of_experts(active) -> None:
    """The operators together: gate, sort by expert, multiply, combine the rows."""
    rows, width, count, k = 5, 4, 6, 2
    x, weights = torch.randn(rows, width), torch.randn(count, width, width)
    logits, bias = torch.randn(rows, count), torch.randn(count, width)
    skip = torch.randn(rows, width)

    def layer(x, logits):
        scales, experts, numbers = torch_npu.npu_moe_gating_top_k_softmax(logits, k=k)
        sorted_x, places, owners = torch_npu.npu_moe_init_routing(
            x, numbers, experts, rows
        )
        sizes = torch.bincount(owners, minlength=count)
        (made,) = torch_npu.npu_grouped_matmul(
            [sorted_x], [weights], group_list=sizes, group_list_type=1, split_item=2
        )
        return torch_npu.npu_moe_finalize_routing(
            made, skip, None, bias, scales, places, experts
        )

    found = layer(x, logits)
    chances = torch.softmax(logits.double(), -1)
    for row in range(rows):
        wanted = skip[row].double()
        for expert in chances[row].topk(k).indices:
            product = x[row].double() @ weights[expert].double() + bias[expert]
            wanted = wanted + chances[row, expert] * product
        torch.testing.assert_close(found[row].double(), wanted, atol=1e-5, rtol=1e-5)
    numbers = torch.arange(rows * k, dtype=torch.int32).reshape(k, rows).t()
    experts = torch.randint(0, count, (rows, k), dtype=torch.int32)
    some, places, owners = both(
        lambda x, n, e: torch_npu.npu_moe_init_routing(x, n, e, active),
        *(x, numbers.contiguous(), experts),
    )
    assert some.shape == (min(active, rows) * k, width)
    assert torch.equal(owners, experts.flatten().sort().values)
    whole = torch_npu.npu_moe_init_routing(x, numbers, experts, rows)[0]
    assert torch.equal(some, whole[: some.shape[0]])
    for row in range(rows):
        for j in range(k):
            place = places[j * rows + row]
            assert torch.equal(whole[place], x[row])
            assert owners[place] == experts[row, j]


def test_more_choices_than_experts() -> None:
    with pytest.raises(RuntimeError, match="k must be from 0 to 3, got 4"):
        torch_npu.npu_moe_gating_top_k_softmax(torch.randn(4, 3), k=4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_activations(dtype) -> None:
    x = torch.randn(9, dtype=dtype)
    wide = x.double()
    exact = torch.nn.functional.gelu
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
    for found, wanted in (
        (both(torch_npu.npu_fast_gelu, x), wide * torch.sigmoid(1.702 * wide)),
        (both(torch_npu.npu_gelu, x), exact(wide)),
        (
            both(lambda x: torch_npu.npu_gelu(x, approximate="tanh"), x),
            exact(wide, approximate="tanh"),
        ),
    ):
        assert found.dtype == dtype
        torch.testing.assert_close(
            found.double(), wanted, atol=tolerance, rtol=tolerance
        )
    with pytest.raises(RuntimeError, match="approximate must be none or tanh"):
        torch_npu.npu_gelu(x, approximate="fast")
