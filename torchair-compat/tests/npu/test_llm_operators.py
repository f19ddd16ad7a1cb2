"""Routing, caches and older attentions equal loops, in graphs and outside."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from agreement import both
from pictures import compiled


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("norm", [0, 1])
@pytest.mark.parametrize("groups", [(1, 1), (4, 2), (4, 4)])
def test_gates_of_groups(groups, norm, mode) -> None:
    count, kept = groups
    x, bias = torch.randn(6, 16), torch.randn(16)
    values, experts, whole = both(
        lambda x, b: torch_npu.npu_moe_gating_top_k(
            x,
            3,
            bias=b,
            k_group=kept,
            group_count=count,
            group_select_mode=mode,
            norm_type=norm,
            out_flag=True,
            routed_scaling_factor=2.5,
        ),
        *(x, bias),
    )
    scores = torch.sigmoid(x) if norm else torch.softmax(x, -1)
    torch.testing.assert_close(whole, scores)
    for row in range(6):
        ranked = scores[row] + bias
        size = 16 // count
        parts = [ranked[g * size : (g + 1) * size] for g in range(count)]
        rank = [
            sum(sorted(p.tolist())[-2:]) if mode else max(p.tolist()) for p in parts
        ]
        best = sorted(range(count), key=lambda g: -rank[g])[:kept]
        allowed = [e for e in range(16) if e // size in best]
        wanted = sorted(allowed, key=lambda e: -float(ranked[e]))[:3]
        assert experts[row].tolist() == wanted
        taken = scores[row][wanted]
        taken = taken / taken.sum() if norm else taken
        torch.testing.assert_close(values[row], taken * 2.5)


@pytest.mark.parametrize("active", [[], [1, 3]])
@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("quant", [-1, 1])
def test_rows_in_the_order_of_experts(active, kind, quant) -> None:
    x = torch.randn(5, 8)
    experts = torch.stack([torch.randperm(4)[:2] for _ in range(5)]).to(torch.int32)
    rows, places, sizes, scales = both(
        lambda x, e: torch_npu.npu_moe_init_routing_v2(
            x,
            e,
            expert_num=4,
            expert_tokens_num_type=kind,
            expert_tokens_num_flag=True,
            quant_mode=quant,
            active_expert_range=active,
        ),
        *(x, experts),
    )
    first, end = active or (0, 4)
    choices = [(int(e), i) for i, e in enumerate(experts.flatten()) if first <= e < end]
    order = [i for _, i in sorted(choices)]
    for place, choice in enumerate(order):
        assert int(places[choice]) == place
        wanted = x[choice // 2]
        if quant == 1:
            torch.testing.assert_close(scales[place], wanted.abs().max() / 127)
            found = rows[place] * scales[place]
            torch.testing.assert_close(found, wanted, atol=0.02, rtol=0)
        else:
            assert torch.equal(rows[place], wanted)
    left = [i for i in range(10) if i not in order]
    assert all(int(places[i]) == -1 for i in left)
    assert not rows[len(order) :].any()
    counts = [sum(e == n for e, _ in choices) for n in range(first, end)]
    ends = [sum(counts[: n + 1]) for n in range(len(counts))]
    assert sizes.tolist() == (counts if kind else ends)
    back = torch_npu.npu_moe_init_routing_v2(x, experts, expert_num=4, row_idx_type=1)
    every = sorted((int(e), i) for i, e in enumerate(experts.flatten()))
    assert back[1].tolist() == [i for _, i in every]


def test_rows_of_the_second_routing_are_put_together() -> None:
    x, scales = torch.randn(5, 8), torch.rand(5, 2)
    experts = torch.randint(0, 4, (5, 2), dtype=torch.int32)

    def function(x, experts, scales):
        rows, places, _, _ = torch_npu.npu_moe_init_routing_v2(
            x, experts, expert_num=4, active_expert_range=[0, 3]
        )
        return torch_npu.npu_moe_finalize_routing(
            rows * 2, None, None, None, scales, places, None, drop_pad_mode=2
        )

    found = both(function, x, experts, scales)
    weight = (scales * (experts < 3)).sum(1, keepdim=True)
    torch.testing.assert_close(found, x * 2 * weight)


def test_places_after_each_expert() -> None:
    experts = torch.tensor([0, 0, 2, 2, 2, 5], dtype=torch.int32)
    found = both(lambda e: torch_npu.npu_moe_compute_expert_tokens(e, 6), experts)
    assert found.tolist() == [2, 2, 5, 5, 5, 6]


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("kept", [None, 7])
def test_tokens_there_and_back(k, kept) -> None:
    tokens = torch.randn(8, 4, dtype=torch.bfloat16)
    indices = torch.stack([torch.randperm(6)[:k] for _ in range(8)])
    probs = torch.rand(8, k) if k > 1 else None
    rows, places = both(
        lambda t, i: torch_npu.npu_moe_token_permute(t, i, kept), tokens, indices
    )
    order = sorted(range(8 * k), key=lambda i: (int(indices.flatten()[i]), i))
    assert torch.equal(rows, tokens[[i // k for i in order[:kept]]])
    assert [int(places[i]) for i in order] == [*range(8 * k)]
    found = both(
        lambda r, p: torch_npu.npu_moe_token_unpermute(r, p, probs), rows, places
    )
    weight = torch.ones(8, k) if probs is None else probs
    taken = (places.reshape(8, k) < rows.shape[0]) * weight
    wanted = tokens.float() * taken.sum(1, keepdim=True)
    torch.testing.assert_close(found.float(), wanted, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("blocked", [False, True])
def test_slots_of_caches(blocked) -> None:
    heads, dim, size = 2, 16, 4
    shape = (3, 2, size, 16) if blocked else (3, size, heads, dim)
    key, value = torch.randn(5, heads, dim), torch.randn(5, heads, dim)
    slots = torch.tensor([7, -1, 0, 11, -3])
    caches = [torch.randn(shape) for _ in range(2)]
    before = [cache.clone() for cache in caches]

    def function(key, value, k_cache, v_cache, slots):
        torch_npu.npu_scatter_pa_kv_cache(key, value, k_cache, v_cache, slots)

    both(function, key, value, *caches, slots)
    for rows, cache, old in zip((key, value), caches, before):
        for row, slot in enumerate(slots.tolist()):
            if slot < 0:
                continue
            block, place = divmod(slot, size)
            if blocked:
                old[block, :, place] = rows[row].reshape(2, 16)
            else:
                old[block, place] = rows[row]
        assert torch.equal(cache, old)


@pytest.mark.parametrize("mode", ["Norm", "PA"])
@pytest.mark.parametrize("outputs", [False, True])
def test_norm_rotation_and_cache(mode, outputs) -> None:
    batch, length, rank, rotary = 2, 3, 8, 4
    kv, gamma = torch.randn(batch, 1, length, rank + rotary), torch.rand(rank)
    angle = torch.randn(batch, 1, length, rotary)
    if mode == "Norm":
        caches = [torch.zeros(batch, 1, 6, rotary), torch.zeros(batch, 1, 6, rank)]
        index = torch.tensor([[0, 1, 2], [3, 4, 5]])
    else:
        caches = [torch.zeros(4, 2, 1, rotary), torch.zeros(4, 2, 1, rank)]
        index = torch.tensor([0, 5, -1, 3, 7, 2])
    found = both(
        lambda kv, g, c, s, i, a, b: torch_npu.npu_kv_rmsnorm_rope_cache(
            kv, g, c, s, i, a, b, cache_mode=mode, is_output_kv=outputs
        ),
        *(kv, gamma, angle.cos(), angle.sin(), index, *caches),
    )
    wide = kv[..., :rank].double()
    normed = wide / (wide.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gamma
    halves = torch.cat([kv[..., rank::2], kv[..., rank + 1 :: 2]], -1)
    left, right = halves.chunk(2, -1)
    rotated = halves * angle.cos() + torch.cat([-right, left], -1) * angle.sin()
    for cache, result, part, again in zip(
        caches, found[:2], (rotated, normed), found[2:]
    ):
        assert torch.equal(cache, result)
        wanted = torch.zeros_like(cache)
        for place in range(batch * length):
            b, s = divmod(place, length)
            slot = int(index.flatten()[place])
            if mode == "Norm":
                wanted[b, 0, slot] = part[b, 0, s]
            elif slot >= 0:
                wanted[slot // 2, slot % 2, 0] = part[b, 0, s]
        torch.testing.assert_close(cache, wanted)
        assert bool(again.numel()) == outputs


def test_groups_and_quantised_updates() -> None:
    x, scale = torch.randn(6, 4), torch.rand(3, 4) * 50
    ends, offset = torch.tensor([2, 2, 6]), torch.tensor([3.0])
    found = both(
        lambda x, s, e, o: torch_npu.npu_group_quant(x, s, e, offset=o),
        *(x, scale, ends, offset),
    )
    rows = scale[[0, 0, 2, 2, 2, 2]]
    wanted = (x * rows + 3).round().clamp(-128, 127).to(torch.int8)
    assert torch.equal(found, wanted)
    data = torch.zeros(2, 5, 4, dtype=torch.int8)
    updates, scales = torch.randn(2, 1, 4), torch.rand(4) * 0.1 + 0.01
    places = torch.tensor([1, 3])
    found = both(
        lambda d, i, u, s: torch_npu.npu_quant_scatter(
            d, i, u, s, axis=-2, quant_axis=-1
        ),
        *(data, places, updates, scales),
    )
    wanted = (updates / scales).round().clamp(-128, 127).to(torch.int8)
    assert torch.equal(found[0, 1], wanted[0, 0])
    assert torch.equal(found[1, 3], wanted[1, 0])
    again = data.clone()
    told = {"axis": -2, "quant_axis": -1}
    torch_npu.npu_quant_scatter_(again, places, updates, scales, **told)
    assert torch.equal(again, found)
    shaped = torch_npu.npu_quant_scatter(
        data, places, updates, scales.view(1, 1, 4), **told
    )
    assert torch.equal(shaped, found)
    with pytest.raises(RuntimeError, match="quant_scales must have shape .1, 1, 4."):
        torch_npu.npu_quant_scatter(
            data, places, updates, scales.view(2, 1, 2)[:, :, [0, 1, 0, 1]], **told
        )


def test_older_attentions() -> None:
    q, k = torch.randn(2, 1, 8), torch.randn(2, 5, 8)
    found = both(
        lambda q, k: torch_npu.npu_incre_flash_attention(
            q, k, k, num_heads=2, scale_value=0.5, actual_seq_lengths=[3, 5]
        ),
        *(q, k),
    )
    for b, length in enumerate((3, 5)):
        query = q[b].reshape(1, 2, 4).transpose(0, 1)
        key = k[b, :length].reshape(length, 2, 4).transpose(0, 1)
        weights = torch.softmax(query @ key.transpose(1, 2) * 0.5, -1)
        wanted = (weights @ key).transpose(0, 1).reshape(1, 8)
        torch.testing.assert_close(found[b], wanted)
    prompt, whole = (
        both(
            lambda k, mask=mask: torch_npu.npu_prompt_flash_attention(
                k, k, k, num_heads=2, scale_value=0.5, atten_mask=mask
            ),
            k,
        )
        for mask in (torch.zeros(5, 5, dtype=torch.bool), None)
    )
    for b in range(2):
        rows = k[b].reshape(5, 2, 4).transpose(0, 1)
        scores = rows @ rows.transpose(1, 2) * 0.5
        wanted = (torch.softmax(scores, -1) @ rows).transpose(0, 1).reshape(5, 8)
        torch.testing.assert_close(whole[b], wanted)
        scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf)
        wanted = (torch.softmax(scores, -1) @ rows).transpose(0, 1).reshape(5, 8)
        torch.testing.assert_close(prompt[b], wanted)
    x, cos, sin = (
        torch.randn(2, 3, 2, 8),
        torch.rand(2, 3, 1, 8),
        torch.rand(2, 3, 1, 8),
    )
    one, other = both(
        lambda x, c, s: torch_npu.npu_apply_rotary_pos_emb(x, x * 2, c, s), x, cos, sin
    )
    torch.testing.assert_close(one, torch_npu.npu_rotary_mul(x, cos, sin))
    torch.testing.assert_close(other, torch_npu.npu_rotary_mul(x * 2, cos, sin))


X, E = torch.ones(3, 4), torch.zeros(3, 2, dtype=torch.int32)
WRONG = {
    "k must be from 1 to 2": lambda: torch_npu.npu_moe_gating_top_k(
        X, 3, k_group=1, group_count=2
    ),
    "renorm must be 0": lambda: torch_npu.npu_moe_gating_top_k(X, 1, renorm=1),
    "active_expert_range .* has no experts": lambda: torch_npu.npu_moe_init_routing_v2(
        X, E
    ),
    "padded_mode must be False": lambda: torch_npu.npu_moe_token_permute(
        X, E, padded_mode=True
    ),
    "are no rows of 2 of": lambda: torch_npu.npu_moe_token_unpermute(
        X, torch.arange(3), torch.ones(2, 2)
    ),
    "does not take key of": lambda: torch_npu.npu_scatter_pa_kv_cache(
        *(torch.ones(2, 2, 4), torch.ones(2, 2, 4)),
        *(torch.ones(3, 4, 3, 4), torch.ones(3, 4, 3, 4)),
        torch.arange(2),
    ),
    "one token a sequence, got 5": lambda: torch_npu.npu_incre_flash_attention(
        *[torch.ones(2, 5, 8)] * 3
    ),
    "no such layout: 'NTD'": lambda: torch_npu.npu_apply_rotary_pos_emb(
        X, X, X, X, layout="NTD"
    ),
    "query of layout TND must have 3 dimensions, got 2": lambda: (
        torch_npu.npu_apply_rotary_pos_emb(X, X, X, X, layout="TND")
    ),
    "rows of 4 elements are no heads of 3": lambda: torch_npu.npu_apply_rotary_pos_emb(
        X[None], X[None], X[None, :, :3], X[None, :, :3], layout="BSH"
    ),
    "dst_dtype must be int8": lambda: torch_npu.npu_group_quant(
        X, X[:1], torch.tensor([3]), dst_dtype=torch.int32
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_does_not_go_together(text) -> None:
    with pytest.raises(RuntimeError, match=text):
        WRONG[text]()


@pytest.mark.parametrize("count", [None, 0, 3, -2])
def test_how_many_tokens_are_permuted(count) -> None:
    """None and 0 keep all; others are slices, as Ascend's page says."""
    tokens = torch.randn(4, 8)
    indices = torch.tensor([[2, 0], [1, 3], [0, 2], [3, 1]], dtype=torch.int32)
    rows, places = torch_npu.npu_moe_token_permute(tokens, indices, count)
    choices = sorted(range(8), key=lambda n: (int(indices.flatten()[n]), n))
    wanted = [tokens[choice // 2] for choice in choices]
    assert torch.equal(rows, torch.stack(wanted[:count] if count else wanted))
    assert [int(places[choice]) for choice in choices] == list(range(8))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"actual_seq_lengths": [9, 2]}, "must be from 0 to 6, got .9, 2."),
        ({"actual_seq_lengths_kv": [-1]}, "actual_seq_lengths_kv must be from 0 to 6"),
        ({"actual_shared_prefix_len": [2]}, "needs key_shared_prefix"),
        ({"key_antiquant_mode": 9}, "key_antiquant_mode must be from 0 to 5, got 9"),
        ({"pse_shift": torch.ones(2, 4, 5, 6)}, "pse_shift of .2, 4, 5, 6. does not"),
        ({"atten_mask": torch.ones(6).bool()}, "atten_mask of .6,. does not cover"),
    ],
)
def test_arguments_of_attention_are_checked(options, text) -> None:
    """A length beyond the rows was cut silently."""
    q, k, v = torch.randn(3, 2, 4, 6, 8)
    with pytest.raises(ValueError, match=f"{text}(.|\n)*query float32 .2, 4, 6, 8."):
        torch_npu.npu_fused_infer_attention_score(
            *(q, k, v), num_heads=4, input_layout="BNSD", **options
        )


@pytest.mark.parametrize("averages", [False, True])
def test_compressed_caches(averages) -> None:
    """A loop over heads keeps the last rows of each, or averages some of them."""
    batch, length, heads, size = 2, 7, 3, 4
    key = torch.randn(batch, length, heads, 8).bfloat16()
    value = torch.randn(batch, length, heads, 4).bfloat16()
    first = torch.tensor([[0, 8, 16], [24, 40, 32]])
    lens = torch.tensor([[2, 0, 5], [1, 3, 4]])
    offsets = torch.tensor([1, 2, 0, 3, -1, 1])
    seq_lens = torch.tensor([7, 6])
    options = {"compress_seq_offsets": offsets} if averages else {}

    def rows_of(x, b, h):
        cut, end, at = int(lens[b, h]), int(seq_lens[b]), int(offsets[b * heads + h])
        rows = x[b, :end, h]
        if not averages:
            return rows[end - cut :] if cut else rows
        if cut == 0 or at < 0:
            return rows
        mean = rows[at : at + cut].float().mean(0, keepdim=True).bfloat16()
        return torch.cat([rows[:at], mean, rows[at + cut :]])

    def write(key, value, key_cache, value_cache):
        torch_npu.npu_scatter_pa_kv_cache(
            *(key, value, key_cache, value_cache, first),
            compress_lens=lens if averages else lens.reshape(-1),
            seq_lens=seq_lens,
            cache_mode="Norm",
            **options,
        )

    empty = [torch.full((12, size, 1, x.shape[-1]), 9).bfloat16() for x in (key, value)]
    wanted = [cache.clone() for cache in empty]
    for x, cache in zip((key, value), wanted):
        flat = cache.view(-1, x.shape[-1])
        for b in range(batch):
            for h in range(heads):
                rows = rows_of(x, b, h)
                flat[first[b, h] : first[b, h] + len(rows)] = rows
    for run in (write, compiled(write)):
        found = [cache.clone() for cache in empty]
        run(key, value, *found)
        torch.testing.assert_close(found, wanted, atol=0.01, rtol=0.01)


def test_wrong_compressed_caches() -> None:
    rows, cache = torch.ones(2, 3, 2, 4), torch.ones(3, 4, 1, 4)
    slots, lens = torch.zeros(2, 2).int(), torch.ones(2).int()
    for options, text in (
        ({"seq_lens": lens}, "needs compress_lens and seq_lens"),
        ({"compress_lens": lens, "seq_lens": lens}, "compress_lens must have shape"),
        ({"compress_lens": slots, "seq_lens": slots}, "seq_lens must have shape"),
        ({"compress_lens": slots, "seq_lens": lens.float()}, "seq_lens must be int32"),
    ):
        with pytest.raises(RuntimeError, match=text):
            torch_npu.npu_scatter_pa_kv_cache(
                rows, rows, cache, cache, slots, **options
            )
