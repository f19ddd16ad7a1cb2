"""Options of attention that depend on others: lengths, masks, sinks, trees and integers.
Eager and compiled calls equal a loop over sequences in float64."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled

op = torch_npu.npu_fused_infer_attention_score
second = torch_npu.npu_fused_infer_attention_score_v2
B, N, T, D = 3, 4, 7, 8


def draw(rows: int) -> list[torch.Tensor]:
    return [torch.randn(B, N, n, D) for n in (rows, T, T)]


def attention(q, k, v, closed=None, sink=None, scale=0.3):
    """The result (N, S, D) of one sequence in float64. `closed` (S, T) marks keys that no
    row reads."""
    scores = q.double() @ k.double().transpose(-1, -2) * scale
    if closed is not None:
        scores = scores.masked_fill(closed, -torch.inf)
    if sink is not None:
        more = sink.double().reshape(-1, 1, 1).expand(-1, scores.shape[1], 1)
        return torch.softmax(torch.cat([scores, more], -1), -1)[..., :-1] @ v.double()
    return torch.softmax(scores, -1).nan_to_num(0.0) @ v.double()


def check(function, arguments, expected, tolerance=1e-5) -> None:
    for run in (function, compiled(function)):
        with torch.no_grad():
            found = run(*arguments)
        torch.testing.assert_close(
            found.double(), expected.double(), atol=tolerance, rtol=10 * tolerance
        )


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("lengths", [[5], [5, 5, 5], [5, 5, 5, 1, 2]])
def test_one_length_serves_all_and_more_are_left_out(rows, lengths) -> None:
    q, k, v = draw(rows)

    def run(q, k, v):
        return op(
            *(q, k, v),
            num_heads=N,
            scale=0.3,
            input_layout="BNSD",
            actual_seq_lengths_kv=lengths,
        )[0]

    expected = [attention(q[b], k[b, :, :5], v[b, :, :5]) for b in range(B)]
    check(run, (q, k, v), torch.stack(expected))


@pytest.mark.parametrize("options", [{"sparse_mode": 2}, {"pre_tokens": 0}])
def test_one_row_has_no_bands(options) -> None:
    q, k, v = draw(1)
    mask = torch.zeros(B, T, dtype=torch.bool)
    given = {"atten_mask": mask} if "pre_tokens" in options else {}

    def run(q, k, v):
        return op(
            *(q, k, v),
            num_heads=N,
            scale=0.3,
            input_layout="BNSD",
            actual_seq_lengths=[0],
            **options,
            **given,
        )[0]

    expected = [attention(*parts) for parts in zip(q, k, v)]
    check(run, (q, k, v), torch.stack(expected))


def test_a_mask_of_a_row_for_each_sequence() -> None:
    q, k, v = draw(1)
    mask = torch.rand(B, T) > 0.5
    mask[:, 0] = False

    def run(q, k, v, mask):
        given = {"num_heads": N, "scale": 0.3, "input_layout": "BNSD"}
        return op(q, k, v, atten_mask=mask, **given)[0]

    rows = zip(q, k, v, mask)
    expected = [attention(*parts, closed.unsqueeze(0)) for *parts, closed in rows]
    check(run, (q, k, v, mask), torch.stack(expected))


@pytest.mark.parametrize("shape", [(0, 4, 7), (2, 0, 7), (2, 4, 0)])
@pytest.mark.parametrize("lse", [False, True])
def test_empty_operands(shape, lse) -> None:
    batch, rows, columns = shape

    def run(q, k, v):
        return op(*(q, k, v), num_heads=N, input_layout="BNSD", softmax_lse_flag=lse)[0]

    q, k, v = (torch.randn(batch, N, n, D) for n in (rows, columns, columns))
    check(run, (q, k, v), torch.zeros(batch, N, rows, D))


@pytest.mark.parametrize("layout", ["TND", "NTD_TND"])
def test_sinks_take_part_in_each_row(layout) -> None:
    q, k, v = torch.randn(5, N, D), torch.randn(9, N, D), torch.randn(9, N, D)
    sink = torch.randn(N)

    def run(q, k, v, sink):
        if layout == "NTD_TND":
            q, k, v = (t.transpose(0, 1) for t in (q, k, v))
        return second(
            *(q, k, v),
            num_query_heads=N,
            softmax_scale=0.3,
            input_layout=layout,
            actual_seq_qlen=[2, 5],
            actual_seq_kvlen=[4, 9],
            sparse_mode=3,
            learnable_sink=sink,
        )[0]

    wanted = []
    for start, end, first, last in ((0, 2, 0, 4), (2, 5, 4, 9)):
        rows, columns = end - start, last - first
        closed = torch.ones(rows, columns).tril(columns - rows) == 0
        parts = (
            t.transpose(0, 1) for t in (q[start:end], k[first:last], v[first:last])
        )
        wanted.append(attention(*parts, closed, sink).transpose(0, 1))
    check(run, (q, k, v, sink), torch.cat(wanted))


@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_trees_of_the_newest_keys(layout) -> None:
    """Mask mode 9 masks the newest keys alone: all earlier columns are open."""
    rows, lengths = [2, 3], [5, 7]
    q, k, v = (
        [torch.randn(N, n, D) for n in sizes] for sizes in (rows, lengths, lengths)
    )
    trees = [torch.rand(n, n) > 0.5 for n in rows]
    ropes = [[torch.randn(N, t.shape[1], 4) for t in part] for part in (q, k)]
    wanted = []
    for b, (count, length) in enumerate(zip(rows, lengths)):
        closed = torch.zeros(count, length, dtype=torch.bool)
        closed[:, length - count :] = trees[b]
        wide = [torch.cat([t[b], r[b]], -1) for t, r in zip((q, k), ropes)]
        wanted.append(attention(*wide, v[b], closed))

    def laid(parts):
        if layout == "TND":
            return torch.cat(parts, 1).transpose(0, 1).contiguous()
        return torch.nn.utils.rnn.pad_sequence(
            [part.transpose(0, 1) for part in parts], batch_first=True
        ).transpose(1, 2)

    if layout == "TND":
        mask = torch.cat([tree.flatten() for tree in trees])
        told = {"actual_seq_qlen": [2, 5], "actual_seq_kvlen": [5, 12]}
    else:
        mask = torch.zeros(2, 3, 3, dtype=torch.bool)
        for b, tree in enumerate(trees):
            mask[b, : rows[b], : rows[b]] = tree
        told = {"actual_seq_qlen": rows, "actual_seq_kvlen": lengths}

    def run(q, k, v, q_rope, k_rope, mask):
        return second(
            *(q, k, v),
            query_rope=q_rope,
            key_rope=k_rope,
            num_query_heads=N,
            softmax_scale=0.3,
            input_layout=layout,
            sparse_mode=9,
            atten_mask=mask,
            **told,
        )[0]

    arguments = (*map(laid, (q, k, v, *ropes)), mask)
    check(run, arguments, laid(wanted))


@pytest.mark.parametrize("mode", [4, 5])
def test_scales_in_pages(mode) -> None:
    size, pages = 4, 6
    q = torch.randn(2, N, 1, D)
    k, v = (torch.randint(-9, 9, (pages, N, size, D)).to(torch.int8) for _ in range(2))
    shape = (pages, size) if mode == 4 else (pages, N, size)
    scales = [torch.rand(shape) * 0.1 for _ in range(2)]
    table = torch.tensor([[3, 0], [5, 2]], dtype=torch.int32)
    lengths = [5, 8]

    def run(q, k, v, k_scale, v_scale, table):
        return second(
            *(q, k, v),
            num_query_heads=N,
            softmax_scale=0.3,
            input_layout="BNSD",
            actual_seq_kvlen=lengths,
            block_table=table,
            block_size=size,
            dequant_scale_key=k_scale,
            dequant_scale_value=v_scale,
            key_quant_mode=mode,
            value_quant_mode=mode,
        )[0]

    def sequence(states, scale, b):
        wide = scale[:, None, :] if mode == 4 else scale
        values = states.double() * wide.double().unsqueeze(-1)
        return torch.cat([values[page] for page in table[b]], 1)[:, : lengths[b]]

    wanted = [
        attention(q[b], sequence(k, scales[0], b), sequence(v, scales[1], b))
        for b in range(2)
    ]
    check(run, (q, k, v, *scales, table), torch.stack(wanted))


@pytest.mark.parametrize("layout", ["BSH", "BNSD", "TND"])
def test_latent_attention_of_int8(layout) -> None:
    """Latent attention with a factor for each row and head of the query, one for keys, one
    for values, rotary parts of bf16, and keys in FRACTAL_NZ pages."""
    size, rank, rotary, kind = 16, 32, 16, torch.bfloat16
    q = torch.randint(-9, 9, (2, 3, N, rank)).to(torch.int8)
    q_rope = torch.randn(2, 3, N, rotary).to(kind)
    q_scale = torch.rand(2, 3, N) * 0.1
    k = torch.randint(-9, 9, (4, size, rank)).to(torch.int8)
    k_rope = torch.randn(4, size, rotary).to(kind)
    k_scale, v_scale = torch.tensor([0.1]), torch.tensor([0.2])
    table = torch.tensor([[3, 0], [1, 2]], dtype=torch.int32)
    lengths = [20, 32]

    def laid(tensor):
        if layout == "BSH":
            return tensor.flatten(2)
        return tensor.transpose(1, 2) if layout == "BNSD" else tensor.flatten(0, 1)

    def blocks(states, last):
        parts = states.unflatten(-1, (-1, last)).transpose(1, 2)
        return parts.unsqueeze(1).contiguous()

    told = {"actual_seq_qlen": [3, 6]} if layout == "TND" else {}
    scales = q_scale.transpose(1, 2) if layout == "BNSD" else q_scale
    scales = scales.flatten(0, 1) if layout == "TND" else scales.contiguous()

    def run(q, k, q_rope, k_rope, q_scale, k_scale, v_scale, table):
        return second(
            *(q, k, k),
            query_rope=q_rope,
            key_rope=k_rope,
            num_query_heads=N,
            num_key_value_heads=1,
            softmax_scale=0.3,
            input_layout=layout,
            actual_seq_kvlen=lengths,
            block_table=table,
            block_size=size,
            dequant_scale_query=q_scale,
            dequant_scale_key=k_scale,
            dequant_scale_value=v_scale,
            query_quant_mode=3,
            **told,
        )[0]

    wanted = []
    for b in range(2):
        keys, turns = (t[table[b]].flatten(0, 1)[: lengths[b]] for t in (k, k_rope))
        wide = torch.cat([keys.double() * 0.1, turns.double()], -1)
        rows = q[b].double() * q_scale[b].double().unsqueeze(-1)
        query = torch.cat([rows, q_rope[b].double()], -1).transpose(0, 1)
        values = (keys.double() * 0.2).expand(N, -1, -1)
        wanted.append(attention(query, wide.expand(N, -1, -1), values).transpose(0, 1))
    arguments = (
        *(laid(q), blocks(k, 32), laid(q_rope), blocks(k_rope, 16)),
        *(scales, k_scale, v_scale, table),
    )
    assert run(*arguments).dtype == kind
    check(run, arguments, laid(torch.stack(wanted)), 2e-2)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"quant_scale_p": torch.ones(1)}, NotImplementedError, "quant_scale_p must"),
        ({"out_dtype": 1}, NotImplementedError, "out_dtype must be None, got 1"),
        ({"query_quant_mode": 1}, ValueError, "query_quant_mode must be 3, got 1"),
        (
            {"dequant_scale_query": torch.ones(1), "query_quant_mode": 3},
            ValueError,
            "dequant_scale_query is for a query, key and value of int8",
        ),
        (
            {"sparse_mode": 9, "atten_mask": torch.zeros(4, 4)},
            ValueError,
            r"sparse_mode 9 must be \(batch, rows, rows\)",
        ),
    ],
)
def test_wrong_options_of_version_two(options, kind, words) -> None:
    with pytest.raises(kind, match=words):
        second(*draw(4), num_query_heads=N, input_layout="BNSD", **options)
