"""Rows by numbers, adapters of low rank, softmaxes with biases, and gates."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled


def both(function, *arguments):
    yield function(*arguments)
    yield compiled(function)(*arguments)


def test_rows_by_numbers() -> None:
    table, index = torch.randn(5, 3).half(), torch.tensor([[4, 0], [2, 2]])
    for found in both(torch_npu.npu_gather_sparse_index, table, index):
        assert torch.equal(found, table[index])


@pytest.mark.parametrize("low_rank", [True, False])
def test_adapters_of_rows(low_rank) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(4, 6), torch.randn(4, 10)
    first = torch.randn(3, 2, 4, 6) if low_rank else None
    second = torch.randn(3, 2, 5, 4 if low_rank else 6)
    own = torch.tensor([2, 0, 3, 1], dtype=torch.int32)

    def add(y, x, own):
        return torch_npu.npu_batch_gather_matmul_(
            *(y.clone(), x, second, own, first),
            layer_idx=1,
            scale=0.5,
            y_offset=3,
            y_slice_size=5,
        )

    wanted = y.double()
    for row, adapter in enumerate(own.tolist()):
        if adapter < 3:
            hidden = x[row].double()
            if low_rank:
                hidden = first[adapter, 1].double() @ hidden
            wanted[row, 3:8] += 0.5 * (second[adapter, 1].double() @ hidden)
    for found in both(add, y, x, own):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_softmaxes(kind) -> None:
    torch.manual_seed(0)
    x, mask = torch.randn(2, 4, 3, 5, 5).to(kind), torch.randn(4, 5, 5).to(kind)
    bias = torch.randn(3, 5, 5).to(kind)

    def biased(x, mask, bias):
        return torch_npu.npu_masked_softmax_with_rel_pos_bias(x, mask, bias, 0.5)

    scores = x.double() * 0.5 + mask.double().unsqueeze(1) + bias.double()
    wanted = torch.softmax(scores, -1).to(kind)
    for found in both(biased, x, mask, bias):
        torch.testing.assert_close(found, wanted)
    flat = torch_npu.npu_masked_softmax_with_rel_pos_bias(
        x.flatten(0, 1), mask.unsqueeze(1), bias.unsqueeze(0), 0.5
    )
    torch.testing.assert_close(flat.reshape(x.shape), wanted)
    written = x.clone()
    assert torch_npu.npu_attn_softmax_(written) is written
    torch.testing.assert_close(written, torch.softmax(x.double(), -1).to(kind))


@pytest.mark.parametrize("renorm", [0, 1])
def test_gates(renorm) -> None:
    torch.manual_seed(0)
    x, finished = torch.randn(4, 9).half(), torch.tensor([False, True, False, False])

    def gate(x, finished):
        return torch_npu.npu_moe_gating_top_k_softmax_v2(
            x, k=3, finished=finished, renorm=renorm, output_softmax=True
        )

    whole = torch.softmax(x.double(), -1)
    values, experts = (x.double() if renorm else whole).topk(3, -1)
    values = torch.softmax(values, -1) if renorm else values
    experts[1] = 9
    for found in both(gate, x, finished):
        torch.testing.assert_close(found[0], values.half())
        assert found[1].dtype == torch.int32 and torch.equal(found[1].long(), experts)
        if renorm:
            assert found[2].numel() == 0
        else:
            torch.testing.assert_close(found[2].double(), whole, rtol=1e-5, atol=1e-6)
