"""Native sparse attention equals loops over tokens and blocks in float64."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from agreement import both

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
NEAR = {
    F16: {"atol": 1e-2, "rtol": 1e-2},
    BF16: {"atol": 8e-2, "rtol": 3e-2},
    F32: {"atol": 1e-4, "rtol": 1e-4},
}


def int32(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_compress(dtype) -> None:
    ends, size, stride = [9, 12, 21], 4, 2
    x, weight = torch.randn(21, 2, 3).to(dtype), torch.randn(size, 2).to(dtype)
    wanted, start = [], 0
    for end in ends:
        for at in range(start, end - size + 1, stride):
            block = x[at : at + size].double() * weight.double().unsqueeze(-1)
            wanted.append(block.sum(0))
        start = end

    def function(x, weight):
        return torch_npu.npu_nsa_compress(x, weight, size, stride, actual_seq_len=ends)

    found = run(function, x, weight, dtype=dtype)
    torch.testing.assert_close(found.double(), torch.stack(wanted), **NEAR[dtype])


def test_compress_of_pages() -> None:
    """A sequence whose last block is not whole writes nothing, nor does a short one."""
    size, stride, page = 4, 2, 4
    pages, weight = torch.randn(6, page, 2, 3).half(), torch.randn(size, 2).half()
    pages[5] = float("nan")  # of no sequence
    lengths, table = (
        [6, 7, 3, 10],
        int32([[3, 0, -1], [1, 2, -1], [4, -1, -1], [2, 4, 0]]),
    )
    cache, slots = torch.zeros(5, 2, 3).half(), int32([2, 0, 1, 0])
    wanted = torch.zeros(5, 2, 3, dtype=torch.float64)
    for number in (0, 3):
        rows = pages[table[number].long().clamp(min=0)].flatten(0, 1)
        last = rows[lengths[number] - size : lengths[number]].double()
        wanted[slots[number]] = (last * weight.double().unsqueeze(-1)).sum(0)

    def function(pages, weight, slots, table, cache):
        told = {"block_table": table, "actual_seq_len": lengths, "cache": cache}
        return torch_npu.npu_nsa_compress_infer(
            pages, weight, slots, size, stride, page, **told
        )

    arguments = pages, weight, slots, table, cache
    found = both(function, *arguments, equal_nan=True, **NEAR[F16])
    torch.testing.assert_close(cache.double(), wanted, **NEAR[F16])
    assert torch.equal(found, cache)


def run(function, *arguments, dtype):
    """Results of eager code, in f16 equal to those of a graph."""
    if dtype != F16:
        return function(*arguments)
    return both(function, *arguments, equal_nan=True, **NEAR[dtype])


def softmax_of(q, k, v, scale, hidden=None):
    """(attention, probabilities, largest, sum) of q (rows, d) in float64."""
    scores = q.double() @ k.double().t() * scale
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    most = scores.max(-1, keepdim=True).values
    total = (scores - most).exp().sum(-1, keepdim=True)
    shares = scores.softmax(-1)
    return shares @ v.double(), shares, most, total


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [F16, BF16, F32])
def test_attention_to_compressed_keys(dtype, masked) -> None:
    queries, keys, blocks, heads, groups = [3, 4], [9, 6], [4, 3], 4, 2
    query = torch.randn(7, heads, 8).to(dtype)
    key, value = (
        torch.randn(15, groups, 8).to(dtype),
        torch.randn(15, groups, 5).to(dtype),
    )
    size, stride, select, count = 4, 2, 4, 3
    hidden = torch.ones(4, 9).triu(3).bool() if masked else None
    chosen = torch.eye(4).to(torch.uint8) if masked else None
    ends = [torch.tensor(n).cumsum(0).tolist() for n in (queries, keys, blocks)]

    def function(query, key, value, hidden, chosen):
        return torch_npu.npu_nsa_compress_attention(
            query, key, value, 0.4, heads, size, stride, select, count,
            topk_mask=chosen, atten_mask=hidden, actual_seq_qlen=ends[0],
            actual_cmp_seq_kvlen=ends[1], actual_sel_seq_kvlen=ends[2],
        )  # fmt: skip

    made = run(function, query, key, value, hidden, chosen, dtype=dtype)
    found, best, most, total = made
    row = first = 0
    for rows, columns, parts in zip(queries, keys, blocks):
        own = slice(row, row + rows)
        pair = key[first : first + columns], value[first : first + columns]
        mask = None if hidden is None else hidden[:rows, :columns]
        for group in range(groups):
            scores = torch.zeros(rows, parts, dtype=torch.float64)
            for head in (2 * group, 2 * group + 1):
                k, v = (t[:, group] for t in pair)
                out, shares, largest, sums = softmax_of(
                    query[own, head], k, v, 0.4, mask
                )
                torch.testing.assert_close(
                    found[own, head].double(), out, **NEAR[dtype]
                )
                torch.testing.assert_close(
                    most[own, head].double(), largest.expand(rows, 8), **NEAR[dtype]
                )
                torch.testing.assert_close(
                    total[own, head].double(), sums.expand(rows, 8), **NEAR[dtype]
                )
                for i in range(parts):
                    for a in range(select // stride):
                        for b in range(size // stride):
                            at = (i + 1) * (select // stride) - a - b
                            if 0 <= at < columns:
                                scores[:, i] += shares[:, at]
            if chosen is not None:
                scores[chosen[:rows, :parts].bool()] = 1e9
            picked = scores.gather(1, best[own, group].long()).sort(-1).values
            wanted = scores.topk(count, -1).values.sort(-1).values
            torch.testing.assert_close(picked, wanted, atol=1e-4, rtol=1e-4)
        row, first = row + rows, first + columns


def test_fewer_blocks_than_are_asked_for() -> None:
    x = torch.randn(3, 1, 4)
    best = torch_npu.npu_nsa_compress_attention(
        x, x, x, 1.0, 1, 4, 2, 4, 3,
        actual_seq_qlen=[3], actual_cmp_seq_kvlen=[3], actual_sel_seq_kvlen=[2],
    )[1]  # fmt: skip
    assert (best[..., 2] == -1).all()
    assert (best[..., :2].sort().values == torch.arange(2)).all()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [F16, BF16, F32])
def test_selected_blocks(dtype, masked) -> None:
    """Keys of blocks that no token chose are NaN, and reach no result."""
    queries, keys, size, heads, groups = [2, 3], [10, 7], 4, 4, 2
    query = torch.randn(5, heads, 8).to(dtype)
    key, value = (
        torch.randn(17, groups, 8).to(dtype),
        torch.randn(17, groups, 5).to(dtype),
    )
    value[8:10] = float("nan")
    chosen = int32([[[1, 0], [0, -1]]] * 2 + [[[1, -1], [0, 1]]] * 3)
    hidden = torch.ones(3, 10).triu(2).bool() if masked else None
    ends = [torch.tensor(n).cumsum(0).tolist() for n in (queries, keys)]

    def function(query, key, value, chosen, hidden):
        return torch_npu.npu_nsa_select_attention(
            query, key, value, chosen, 0.4, heads, size, 2,
            atten_mask=hidden, actual_seq_qlen=ends[0], actual_seq_kvlen=ends[1],
        )  # fmt: skip

    arguments = query, key, value, chosen, hidden
    found, most, total = run(function, *arguments, dtype=dtype)
    for row in range(5):
        n, start, place = (0, 0, row) if row < 2 else (1, 10, row - 2)
        for head in range(heads):
            places = [
                block * size + step
                for block in chosen[row, head // 2].tolist()
                for step in range(size)
                if block >= 0 and block * size + step < keys[n]
            ]
            if hidden is not None:
                places = [p for p in places if not hidden[place, p]]
            if not places:
                assert (found[row, head] == 0).all()
                continue
            k, v = (t[[start + p for p in places], head // 2] for t in (key, value))
            out, _, largest, sums = softmax_of(query[row, head][None], k, v, 0.4)
            for a, b in ((found, out), (most, largest), (total, sums)):
                b = b[0].expand(a.shape[-1])
                torch.testing.assert_close(a[row, head].double(), b, **NEAR[dtype])


@pytest.mark.parametrize("layout", ["BSND", "BSH", "TND"])
def test_selected_blocks_of_pages(layout) -> None:
    batch, heads, groups, page, size = 2, 4, 2, 8, 4
    keys, table = [11, 6], int32([[2, 0], [3, -1]])
    query = torch.randn(batch, heads, 6).half()
    key, value = (
        torch.randn(4, page, groups, 6).half(),
        torch.randn(4, page, groups, 5).half(),
    )
    key[1] = value[1] = float("nan")
    value[3, 6:] = float("nan")  # beyond the sequence
    chosen = int32([[[2, 0], [1, -1]], [[0, 1], [1, -1]]])
    given = {"TND": query, "BSND": query.unsqueeze(1), "BSH": query.flatten(1)[:, None]}
    flat = layout == "BSH"
    pair = (t.flatten(2) if flat else t for t in (key, value))

    def function(query, key, value, chosen, table):
        return torch_npu.npu_nsa_select_attention_infer(
            query, key, value, chosen, 0.4, heads, groups, size, 2, page,
            layout=layout, block_table=table, actual_seq_kvlen=keys,
        )  # fmt: skip

    arguments = given[layout], *pair, chosen, table
    found = both(function, *arguments, equal_nan=True, **NEAR[F16])
    found = found.reshape(batch, heads, 5)
    for row in range(batch):
        rows = [t[table[row].long().clamp(min=0)].flatten(0, 1) for t in (key, value)]
        for head in range(heads):
            places = [
                block * size + step
                for block in chosen[row, head // 2].tolist()
                for step in range(size)
                if block >= 0 and block * size + step < keys[row]
            ]
            k, v = (t[places, head // 2] for t in rows)
            out = softmax_of(query[row, head][None], k, v, 0.4)[0][0]
            torch.testing.assert_close(found[row, head].double(), out, **NEAR[F16])


def reference_of_pages(query, key, value, lengths, table, count, steps):
    """The attention and the chosen blocks of each sequence, by loops. `steps`: stride, and
    the sizes of compressed and of chosen blocks."""
    stride, size, select = steps
    heads, groups = query.shape[1], key.shape[2]
    made = torch.zeros(*query.shape[:2], value.shape[-1], dtype=torch.float64)
    found = []
    for row, length in enumerate(lengths):
        keys = [
            t[table[row].long().clamp(min=0)].flatten(0, 1)[:length]
            for t in (key, value)
        ]
        parts = -(-((length - 1) * stride + size) // select)
        for group in range(groups):
            scores = torch.zeros(parts, dtype=torch.float64)
            for head in range(group * heads // groups, (group + 1) * heads // groups):
                k, v = (t[:, group] for t in keys)
                out, shares, _, _ = softmax_of(query[row, head][None], k, v, 0.3)
                made[row, head] = out[0]
                for i in range(parts):
                    for a in range(select // stride):
                        for b in range(size // stride):
                            at = (i + 1) * (select // stride) - a - b
                            if 0 <= at < length:
                                scores[i] += shares[0, at]
            always = sorted({0, max(parts - 2, 0), parts - 1})
            rest = [
                i for i in scores.argsort(descending=True).tolist() if i not in always
            ]
            chosen = (always + rest)[:count]
            found.append(chosen + [-1] * (count - len(chosen)))
    return made, torch.tensor(found).reshape(len(lengths), groups, count)


@pytest.mark.parametrize("layout", ["TND", "BSND"])
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_attention_to_compressed_keys_of_pages(dtype, layout) -> None:
    """Keys behind a sequence's end and in other pages are NaN, and reach no result."""
    heads, groups, page, count = 4, 2, 16, 6
    lengths, table = [37, 5, 16], int32([[3, 0, 5], [1, -1, -1], [2, -1, -1]])
    query = torch.randn(3, heads, 8).to(dtype)
    key, value = (
        torch.randn(6, page, groups, 8).to(dtype),
        torch.randn(6, page, groups, 5),
    )
    value = value.to(dtype)
    key[4] = value[4] = float("nan")
    key[5, 5:] = value[5, 5:] = key[1, 5:] = value[1, 5:] = float("nan")
    given = query if layout == "TND" else query.unsqueeze(1)

    def function(query, key, value, table):
        return torch_npu.npu_nsa_compress_attention_infer(
            query, key, value, 0.3, heads, groups, 32, count, page, 32, 16,
            layout=layout, block_table=table, actual_cmp_seq_kvlen=lengths,
        )  # fmt: skip

    flat = layout == "TND"
    pair = [t.flatten(2) if flat else t for t in (key, value)]
    found, best = run(function, given, *pair, table, dtype=dtype)
    if not flat:
        found, best = found.squeeze(1), best.squeeze(1)
    wanted, chosen = reference_of_pages(
        query, key, value, lengths, table, count, (16, 32, 32)
    )
    torch.testing.assert_close(found.double(), wanted, **NEAR[dtype])
    assert best.dtype == torch.int32
    assert torch.equal(best.long(), chosen)


def _compressed(**change):
    right = {
        "query": torch.randn(2, 4, 8).half(), "key": torch.randn(3, 16, 16).half(),
        "value": torch.randn(3, 16, 16).half(), "scale_value": 1.0, "head_num": 4,
        "key_value_head_num": 2, "select_block_size": 32, "select_block_count": 2,
        "page_block_size": 16, "compress_block_size": 32, "compress_stride": 16,
        "block_table": int32([[0, 1], [2, 0]]), "actual_cmp_seq_kvlen": [20, 9],
    }  # fmt: skip
    return torch_npu.npu_nsa_compress_attention_infer(**{**right, **change})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"layout": "BSH"}, "layout must be one of"),
        ({"actual_cmp_seq_kvlen": None}, "actual_cmp_seq_kvlen is needed"),
        (
            {"actual_cmp_seq_kvlen": [20, 33]},
            "actual_cmp_seq_kvlen must have 2 numbers from 1 to 32",
        ),
        ({"actual_cmp_seq_kvlen": [20]}, "actual_cmp_seq_kvlen must have 2 numbers"),
        ({"actual_seq_qlen": [1, 2]}, "actual_seq_qlen must be None"),
        ({"block_table": None}, "block_table is needed"),
        ({"page_block_size": 8}, r"key must be \(pages, 8, ...\) by page_block_size"),
        ({"select_block_size": 24}, "select_block_size must be a multiple of"),
        (
            {"key_value_head_num": 3},
            "key has rows of 16 elements, which are no 3 heads",
        ),
        ({"head_num": 8}, "head_num must be the heads of query, 4, got 8"),
    ],
)
def test_wrong_compressed_pages(change, text) -> None:
    with pytest.raises(RuntimeError, match=f"npu_nsa_compress_attention_infer: {text}"):
        _compressed(**change)


def _selected(**change):
    x = torch.randn(4, 2, 8)
    right = {
        "query": x, "key": x, "value": x, "topk_indices": int32([[[0], [0]]] * 4),
        "scale_value": 1.0, "head_num": 2, "select_block_size": 4,
        "select_block_count": 1, "actual_seq_qlen": [4], "actual_seq_kvlen": [4],
    }  # fmt: skip
    return torch_npu.npu_nsa_select_attention(**{**right, **change})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"head_num": 4}, "head_num must be the heads of query, 2, got 4"),
        (
            {"actual_seq_qlen": [3]},
            r"actual_seq_qlen must rise to the number of rows, 4",
        ),
        ({"actual_seq_kvlen": None}, "actual_seq_kvlen is needed"),
        ({"actual_seq_kvlen": [2, 4]}, "actual_seq_qlen and actual_seq_kvlen differ"),
        ({"select_block_count": 2}, r"topk_indices must have shape \(4, 2, 2\)"),
        ({"select_block_size": 0}, "select_block_size must be positive, got 0"),
        ({"key": torch.randn(4, 3, 8)}, r"value must have shape \(4, 3, 8\)"),
        ({"atten_mask": torch.zeros(2, 2).bool()}, "atten_mask must be at least"),
    ],
)
def test_wrong(change, text) -> None:
    with pytest.raises(RuntimeError, match=f"npu_nsa_select_attention: {text}"):
        _selected(**change)
