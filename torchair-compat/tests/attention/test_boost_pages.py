"""Pages of the transformer boost library against float64, and quantisation by tables."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from small_numbers import both

TABLE = torch.tensor([[3, 0, 1], [1, 2, 0]], dtype=torch.int32)


def sequence(cache: torch.Tensor, place: int, length: int, start: int = 0):
    rows = cache[TABLE[place].long()].flatten(0, 1)
    return rows[start : start + length]


@pytest.mark.parametrize("cumsum", [False, True])
def test_loaded_pages(cumsum) -> None:
    keys, values = torch.randn(4, 2, 1, 8), torch.randn(4, 2, 1, 6)
    lens = torch.tensor([0, 3, 5] if cumsum else [3, 2], dtype=torch.int32)
    starts = torch.tensor([2, 0], dtype=torch.int32)
    given = keys, values, TABLE, lens
    found = torch_npu.atb.npu_paged_cache_load(*given, seq_starts=starts, cumsum=cumsum)
    wanted = [
        torch.cat([sequence(cache, 0, 3, 2), sequence(cache, 1, 2)])
        for cache in (keys, values)
    ]
    out = [torch.zeros_like(one) for one in wanted]
    torch_npu.atb.npu_paged_cache_load(
        *given, seq_starts=starts, cumsum=cumsum, key=out[0], value=out[1]
    )
    for one, other, written in zip(found, wanted, out):
        assert torch.equal(one, other) and torch.equal(written, other)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_attention_with_a_bias(kind, biased) -> None:
    torch.manual_seed(0)
    query = torch.randn(2, 4, 8).to(kind)
    keys, values = torch.randn(4, 16, 2, 8).to(kind), torch.randn(4, 16, 2, 6).to(kind)
    lengths, mask = [40, 9], torch.randn(2, 4, 1, 40).to(kind)
    options = {"mask": mask, "mask_type": 2} if biased else {}
    out = torch.zeros(2, 4, 6, dtype=kind)
    workspace = torch_npu.atb._npu_paged_attention_v2_get_workspace(
        *(query, keys, TABLE, lengths), value_cache=values, num_heads=4, out=out
    )
    torch_npu.atb._npu_paged_attention_v2(
        *(query, keys, TABLE, lengths),
        value_cache=values,
        num_heads=4,
        num_kv_heads=2,
        scale_value=0.3,
        workspace=workspace,
        out=out,
        **options,
    )
    for place, length in enumerate(lengths):
        for head in range(4):
            key = sequence(keys, place, length)[:, head // 2].double()
            scores = key @ query[place, head].double() * 0.3
            if biased:
                scores = scores + mask[place, head, 0, :length].double()
            rows = sequence(values, place, length)[:, head // 2].double()
            wanted = torch.softmax(scores, 0) @ rows
            torch.testing.assert_close(
                out[place, head].double(), wanted, rtol=2e-2, atol=1e-2
            )


def test_quantised_by_tables() -> None:
    torch.manual_seed(0)
    x, scale = torch.randn(2, 3, 4).half(), torch.rand(3, 4).half() / 9 + 0.05
    point = torch.randint(-5, 5, (4,), dtype=torch.int8)
    for points in (point, point[:0]):
        y = torch.zeros(2, 3, 4, dtype=torch.int8)
        torch_npu._npu_quantize_per_tensor(x, scale, points, y)
        exact = (x.double() / scale.double()).round()
        wanted = (exact + (point if points.numel() else 0)).clamp(-128, 127)
        assert torch.equal(y.double(), wanted)
    with pytest.raises(RuntimeError, match="at most 8 dimensions, but got 9"):
        torch_npu._npu_quantize_per_tensor(
            x, scale.reshape((1,) * 7 + (3, 4)), point, y
        )


@pytest.mark.parametrize(
    ("argument", "wrong", "text"),
    [
        (2, torch.zeros(2, dtype=torch.int32), "block_table must have 2 dimensions"),
        (2, torch.zeros(2, 3), "block_table must be"),
        (3, torch.ones(3, dtype=torch.int32), "context_lens must have shape"),
        ("seq_starts", torch.zeros(5, dtype=torch.int32), "seq_starts must have shape"),
    ],
)
def test_loading_names_its_own_arguments(argument, wrong, text) -> None:
    given = [
        torch.randn(4, 4, 2, 8),
        torch.randn(4, 4, 2, 8),
        torch.zeros(2, 3, dtype=torch.int32),
        torch.ones(2, dtype=torch.int32),
    ]
    named = {argument: wrong} if isinstance(argument, str) else {}
    if not named:
        given[argument] = wrong
    with pytest.raises(RuntimeError, match=f"^npu_paged_cache_load: {text}"):
        torch_npu.atb.npu_paged_cache_load(*given, **named)


def of_int8(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, dtype=torch.int8)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_attention_of_int8(kind) -> None:
    torch.manual_seed(0)
    query, keys, values = of_int8(2, 4, 8), of_int8(4, 16, 2, 8), of_int8(4, 16, 2, 6)
    first, second = torch.rand(4) / 64, torch.rand(4) / 64
    lengths = torch.tensor([40, 9])

    def attention(query, keys, values, lengths, first, second):
        out = torch.zeros(2, 4, 6, dtype=kind)
        torch_npu._npu_paged_attention_quant(
            *(query, keys, values, 2, 4, 0.3, TABLE, lengths),
            *(3, 1 if kind == torch.float16 else 27, first, second, out),
        )
        return out

    for found in both(attention, query, keys, values, lengths, first, second):
        for place, length in enumerate(lengths.tolist()):
            for head in range(4):
                key = sequence(keys, place, length)[:, head // 2].double()
                scores = key @ query[place, head].double() * first[head].double() * 0.3
                parts = torch.exp(scores - scores.max())
                rows = sequence(values, place, length)[:, head // 2].double()
                steps = (parts * 127).round() / 127
                wanted = steps @ rows * second[head] / parts.sum()
                torch.testing.assert_close(
                    found[place, head].double(), wanted, rtol=1e-2, atol=5e-3
                )


def test_wrong_attention_of_int8() -> None:
    given = {
        "query": of_int8(2, 4, 8),
        "key_cache": of_int8(4, 16, 2, 8),
        "value_cache": of_int8(4, 16, 2, 8),
        "num_kv_heads": 2,
        "num_heads": 4,
        "scale_value": 0.3,
        "block_table": TABLE,
        "context_lens": torch.tensor([0, 9]),
        "quant_type": 3,
        "outdata_type": 1,
        "k_descale": torch.ones(4),
        "v_descale": torch.ones(4),
        "out": torch.ones(2, 4, 8).half(),
    }
    torch_npu._npu_paged_attention_quant(**given)
    assert given["out"][0].eq(0).all() and given["out"][1].ne(0).any()
    for options, words in (
        ({"query": torch.ones(2, 4, 8)}, "query must be int8"),
        ({"num_kv_heads": 3}, "must be a multiple of num_kv_heads 3"),
        ({"quant_type": 2}, "quant_type must be 3"),
        ({"outdata_type": 27}, "out must be bfloat16"),
        ({"outdata_type": 0}, "outdata_type must be 1 or 27"),
        ({"context_lens": torch.tensor([1, 900])}, "context_lens must be from 0 to"),
        ({"block_table": TABLE + 99}, "block_table must name blocks from 0 to 3"),
        ({"k_descale": torch.ones(2)}, "k_descale must have shape"),
        ({"out": torch.ones(2, 8, 4).half()}, "out must have shape"),
    ):
        with pytest.raises(RuntimeError, match=words):
            torch_npu._npu_paged_attention_quant(**given | options)
