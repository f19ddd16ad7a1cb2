"""npu_block_sparse_attention against float64."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled


def reference(q, k, v, mask, block, scale):
    """The attention (n, s, d) of a sequence, and its log-sum-exp (n, s, 1)."""
    share = q.shape[0] // k.shape[0]
    out, sums = torch.zeros(q.shape).double(), torch.zeros(*q.shape[:2], 1).double()
    for head in range(q.shape[0]):
        for row in range(q.shape[1]):
            blocks = mask[head, row // block[0]]
            seen = [j for j in range(k.shape[1]) if blocks[j // block[1]]]
            scores = k[head // share, seen].double() @ q[head, row].double() * scale
            out[head, row] = torch.softmax(scores, 0) @ v[head // share, seen].double()
            sums[head, row] = torch.logsumexp(scores, 0)
    return out, sums


def masks(count: int, rows: int) -> torch.Tensor:
    made = torch.randint(0, 2, (count, 4, -(-rows // 4), 2), dtype=torch.int8)
    # The last block of queries sees nothing.
    made[:, :, -1] = 0
    return made


def check(found, wanted, kind) -> None:
    out, sums = found
    near = 2e-2 if kind == torch.bfloat16 else 4e-3
    torch.testing.assert_close(out.double(), wanted[0], rtol=near, atol=near)
    torch.testing.assert_close(sums.double(), wanted[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_batches(kind) -> None:
    torch.manual_seed(0)
    q = torch.randn(2, 4, 9, 8).to(kind)
    k, v = torch.randn(2, 2, 2, 200, 8).to(kind)
    mask = masks(2, 9)

    def attend(q, k, v, mask):
        return torch_npu.npu_block_sparse_attention(
            *(q, k, v, mask, [4, 128]),
            q_input_layout="BNSD",
            kv_input_layout="BNSD",
            num_key_value_heads=2,
            scale_value=0.3,
            inner_precise=0,
            softmax_lse_flag=1,
        )

    parts = [reference(*one, (4, 128), 0.3) for one in zip(q, k, v, mask)]
    wanted = [torch.stack(part) for part in zip(*parts)]
    for function in (attend, compiled(attend)):
        check(function(q, k, v, mask), wanted, kind)


def test_packed_sequences() -> None:
    torch.manual_seed(0)
    kind, lengths, keys = torch.float16, [3, 9], [150, 20]
    q = torch.randn(12, 4, 8).to(kind)
    k, v = torch.randn(2, 170, 1, 8).to(kind)
    mask = masks(2, 9)

    def attend(q, k, v, mask):
        return torch_npu.npu_block_sparse_attention(
            *(q, k, v, mask, [4, 128]),
            scale_value=0.3,
            actual_seq_lengths=lengths,
            actual_seq_lengths_kv=keys,
            softmax_lse_flag=1,
        )

    rows = [
        t.transpose(0, 1).split(n, 1) for t, n in ((q, lengths), (k, keys), (v, keys))
    ]
    parts = [reference(*one, (4, 128), 0.3) for one in zip(*rows, mask)]
    wanted = [torch.cat(part, 1).transpose(0, 1) for part in zip(*parts)]
    for function in (attend, compiled(attend)):
        check(function(q, k, v, mask), wanted, kind)
    with pytest.raises(RuntimeError, match="actual_seq_lengths must be lengths of 12"):
        torch_npu.npu_block_sparse_attention(q, k, v, mask, [4, 128])
