"""Dispatch and combine with tokens that rest, shared experts on several ranks, experts on
no rank, and packed int4: what arrives where, and the sums that come back, by loops."""

from __future__ import annotations

import pytest

from ranks import run_ranks

SCRIPT = """
import itertools

WIDTH, CHOICES, TOKENS = 6, 3, 4
name = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
settings = dict(group_ep=name, ep_world_size=ranks, ep_rank_id=rank)


def tokens_of(r, experts, special, mask):
    generator = torch.Generator().manual_seed(100 + r)
    x = torch.randn(TOKENS, WIDTH, generator=generator).bfloat16()
    total = experts + sum(special)
    ids = torch.stack(
        [torch.randperm(total, generator=generator)[:CHOICES] for _ in range(TOKENS)]
    ).to(torch.int32)
    weights = torch.rand(TOKENS, CHOICES, generator=generator)
    active = {
        None: torch.ones(TOKENS, CHOICES, dtype=torch.bool),
        1: torch.arange(TOKENS) < 3 - r,
        2: torch.rand(TOKENS, CHOICES, generator=generator) > 0.4,
    }[mask]
    if mask == 2:
        active[1] = False
    return x, ids, weights, active


def choices_of(ids, active):
    active = active if active.dim() == 2 else active.unsqueeze(1).expand(ids.shape)
    return [
        [int(e) if on else None for e, on in zip(*row)] for row in zip(ids, active)
    ]


def check_case(shared, shared_ranks, special, mask, quant):
    moe = ranks - shared_ranks
    experts, copies = 3 * moe, shared_ranks // max(shared, 1)
    common = dict(
        **settings, moe_expert_num=experts, shared_expert_num=shared,
        shared_expert_rank_num=shared_ranks,
        zero_expert_num=special[0], copy_expert_num=special[1],
        const_expert_num=special[2],
    )
    x, ids, weights, active = tokens_of(rank, experts, special, mask)
    given = None if mask is None else active
    offset = shared if shared_ranks else 0
    smooth = torch.rand(offset + experts, WIDTH, generator=torch.manual_seed(3)) + 0.5
    alphas = [torch.randn(special[2], WIDTH).bfloat16() for _ in range(3)]
    extra = torch.randn(TOKENS, WIDTH).bfloat16()

    def dispatch(x, ids, weights, given):
        return torch_npu.npu_moe_distribute_dispatch_v2(
            x, ids, scales=smooth if quant else None, x_active_mask=given,
            expert_scales=weights, quant_mode=quant, comm_alg="fullmesh_v2", **common,
        )

    # (expert, source, token) of all that this rank gets; shared experts are negative.
    wanted = []
    first = (rank - shared_ranks) * 3
    for source in range(ranks):
        _, sids, _, sactive = tokens_of(source, experts, special, mask)
        for t, row in enumerate(choices_of(sids, sactive)):
            mine = rank < shared_ranks and source * copies // ranks == rank % copies
            if mine and any(e is not None for e in row):
                wanted.append((-1, source, t))
            if rank >= shared_ranks:
                wanted += [
                    (e, source, t) for e in row
                    if e is not None and first <= e < first + 3
                ]
    wanted.sort()
    rows, factors, info, sizes, counts, tp, scales = dispatch(x, ids, weights, given)
    assert info.shape == (rows.shape[0] * 128,) and info.dtype == torch.int32
    firsts = [-1] if rank < shared_ranks else range(first, first + 3)
    assert sizes.tolist() == [sum(w[0] == e for w in wanted) for e in firsts]
    assert int(counts[-1]) == len(wanted) and not rows[len(wanted):].any()
    for n, (expert, source, t) in enumerate(wanted):
        row = tokens_of(source, experts, special, mask)[0][t]
        if quant:
            place = rank // copies if expert < 0 else expert + offset
            row = row.float() * smooth[place]
            torch.testing.assert_close(factors[n], row.abs().max() / 127)
            torch.testing.assert_close(rows[n] * factors[n], row, atol=0.05, rtol=0)
        else:
            assert torch.equal(rows[n], row), (n, expert)

    def layer(x, ids, weights, given, extra, *alphas):
        rows, factors, info, sizes, counts, _, _ = dispatch(x, ids, weights, given)
        values = rows.float() * factors.unsqueeze(-1) if quant else rows.float()
        base = -1 - rank // max(copies, 1) if rank < shared_ranks else first
        number = torch.bucketize(torch.arange(rows.shape[0]), sizes.cumsum(0), right=True)
        made = (values * (number + base + 10).unsqueeze(-1)).bfloat16()
        # What stands after the rows of experts is never read.
        made = torch.where((number < sizes.shape[0]).unsqueeze(-1), made, torch.nan)
        return torch_npu.npu_moe_distribute_combine_v2(
            made, ids, info, counts, weights, x_active_mask=given,
            shared_expert_x=extra, ori_x=x,
            const_expert_alpha_1=alphas[0], const_expert_alpha_2=alphas[1],
            const_expert_v=alphas[2], **common,
        )

    result = torch.zeros(TOKENS, WIDTH, dtype=torch.float64)
    wide = x.double()
    for t, row in enumerate(choices_of(ids, active)):
        if all(e is None for e in row):
            continue
        result[t] = extra[t].double()
        for s in range(offset):
            result[t] += wide[t] * (9 - s) * (smooth[s] if quant else 1)
        for k, e in enumerate(row):
            if e is None:
                continue
            if e < experts:
                made = wide[t] * (e + 10) * (smooth[offset + e] if quant else 1)
            elif e < experts + special[0]:
                made = 0
            elif e < experts + special[0] + special[1]:
                made = wide[t]
            else:
                a, b, v = (m[e - experts - special[0] - special[1]] for m in alphas)
                made = a * wide[t] + b.double() * v
            result[t] += weights[t, k] * made
    near = dict(atol=0.5, rtol=0.03)
    arguments = (x, ids, weights, given, extra, *alphas)
    torch.testing.assert_close(layer(*arguments).double(), result, **near)
    if COMPILED:
        torch._dynamo.reset()
        backend = torchair.get_npu_backend()
        run = torch.compile(layer, backend=backend, fullgraph=True, dynamic=False)
        torch.testing.assert_close(run(*arguments).double(), result, **near)


for case in CASES:
    check_case(*case)
"""


def script(cases, compile_all: bool) -> str:
    return f"CASES, COMPILED = {cases!r}, {compile_all}\n{SCRIPT}"


def test_two_ranks(tmp_path) -> None:
    """Masks of tokens and of choices, special experts, quantised rows; also compiled."""
    cases = [
        (1, 0, (0, 0, 0), None, 0),
        (0, 0, (1, 2, 1), 2, 2),
        (1, 1, (0, 1, 0), 1, 0),
    ]
    run_ranks(tmp_path, script(cases, True), 2)


@pytest.mark.slow
def test_four_ranks(tmp_path) -> None:
    """Two shared experts on a rank each; one with two copies."""
    cases = [
        (shared, 2, special, mask, quant)
        for shared in (1, 2)
        for special in ((0, 0, 0), (2, 1, 2))
        for mask in (None, 1, 2)
        for quant in (0, 2)
    ]
    run_ranks(tmp_path, script(cases, False), 4)


PACKED = """
name = dist.group.WORLD.group_name
common = dict(group_ep=name, ep_world_size=ranks, ep_rank_id=rank, moe_expert_num=2)
x = torch.randint(-2**31, 2**31, (3, 4), dtype=torch.int32) + rank
scales = torch.rand(3)
ids = torch.tensor([[0], [1], [1]], dtype=torch.int32)
everywhere = [torch.empty_like(x) for _ in range(ranks)], [torch.empty(3) for _ in range(ranks)]
dist.all_gather(everywhere[0], x)
dist.all_gather(everywhere[1], scales)
found = torch_npu.npu_moe_distribute_dispatch_v2(x, ids, scales=scales, **common)
chosen = slice(0, 1) if rank == 0 else slice(1, 3)
count = int(found[3].sum())
assert torch.equal(found[0][:count], torch.cat([e[chosen] for e in everywhere[0]]))
assert torch.equal(found[1][:count], torch.cat([e[chosen] for e in everywhere[1]]))

x, ids, weights = torch.randn(4, 6), torch.zeros(4, 2, dtype=torch.int32), torch.rand(4, 2)
given = dict(group_ep=name, ep_world_size=ranks, ep_rank_id=rank, moe_expert_num=4)
for change, text in (
    ({"comm_alg": "ring"}, "comm_alg must be one of .*, got 'ring'"),
    ({"performance_info": torch.zeros(2).long()}, "performance_info must be None"),
    ({"quant_mode": 3}, "quant_mode must be 0 or 2 for x of torch.float32, got 3"),
    ({"zero_expert_num": -1}, "zero_expert_num must not be negative, got -1"),
    ({"x_active_mask": torch.ones(3, dtype=torch.bool)}, "x_active_mask must have shape"),
    ({"x_active_mask": torch.ones(4)}, "x_active_mask must be bool"),
    ({"expert_ids": ids + 4}, "expert_ids must be from 0 to 3, got 4 to 4"),
    ({"x": x.int()}, "x of int32 needs scales"),
    ({"shared_expert_rank_num": 1, "shared_expert_num": 2}, "must be a multiple of"),
):
    with pytest.raises(RuntimeError, match="npu_moe_distribute_dispatch_v2: .*" + text):
        torch_npu.npu_moe_distribute_dispatch_v2(**{"x": x, "expert_ids": ids} | given | change)
with pytest.raises(NotImplementedError, match="elastic_info must be None"):
    torch_npu.npu_moe_distribute_dispatch_v2(x, ids, elastic_info=x, **given)
# A residual and a norm after the sum.
spread = torch.tensor([[0, 1], [2, 3], [1, 2], [3, 0]], dtype=torch.int32)
residual, gamma = torch.randn(4, 1, 6), torch.randn(6)


def joined(x, spread, weights, residual, gamma):
    rows, _, info, _, counts, _, _ = torch_npu.npu_moe_distribute_dispatch_v2(x, spread, **given)
    sent = rows, spread, info, counts, weights
    norm = torch_npu.npu_moe_distribute_combine_add_rms_norm
    alone = torch_npu.npu_moe_distribute_combine_v2(*sent, **given)
    return alone, *norm(*sent, residual, gamma, norm_eps=0.1, **given)


compiled = torch.compile(joined, backend=torchair.get_npu_backend(), fullgraph=True)
for run in (joined, compiled):
    alone, normed, root, total = run(x, spread, weights, residual, gamma)
    near = {"atol": 1e-5, "rtol": 1e-5}
    torch.testing.assert_close(alone.double(), x.double() * weights.double().sum(1, True), **near)
    summed = alone.double()[:, None] + residual.double()
    turned = (summed.square().mean(-1, keepdim=True) + 0.1) ** -0.5
    torch.testing.assert_close(total.double(), summed, **near)
    torch.testing.assert_close(root.double(), turned, **near)
    torch.testing.assert_close(normed.double(), summed * turned * gamma.double(), **near)
for change, text in (
    ({"residual_x": residual[:3]}, "residual_x must have shape"),
    ({"gamma": gamma.half()}, "gamma must be float32"),
    ({"out_dtype": 1}, "out_dtype must be 0: it is for other processors"),
    ({"weight_scale": gamma}, "weight_scale must be None: it is for other processors"),
):
    operands = {"residual_x": residual, "gamma": gamma} | change
    with pytest.raises(RuntimeError, match="combine_add_rms_norm: .*" + text):
        torch_npu.npu_moe_distribute_combine_add_rms_norm(
            x, spread, spread, spread, weights, **operands, **given
        )
rows = torch.zeros(16, 6)
operands = {
    "expand_x": rows, "expert_ids": ids, "expert_scales": weights,
    "assist_info_for_combine": torch.zeros(16 * 128, dtype=torch.int32),
    "ep_send_counts": torch.zeros(4, dtype=torch.int32),
}
for change, text in (
    ({"copy_expert_num": 1}, "copy_expert_num and const_expert_num need ori_x"),
    ({"const_expert_num": 1, "ori_x": x}, "const_expert_num 1 needs const_expert_alpha_1"),
    ({"ori_x": x.half()}, "ori_x must be float32"),
    ({"shared_expert_x": x[:3]}, "shared_expert_x must be .4, 6., or .a, b, 6. with"),
    ({"assist_info_for_combine": ids}, "assist_info_for_combine must have shape"),
    ({"comm_quant_mode": 1}, "comm_quant_mode must be 0 or 2, got 1"),
):
    with pytest.raises(RuntimeError, match="npu_moe_distribute_combine_v2: .*" + text):
        torch_npu.npu_moe_distribute_combine_v2(**operands | given | change)
"""


def test_packed_rows_and_errors(tmp_path) -> None:
    run_ranks(tmp_path, PACKED, 2)
