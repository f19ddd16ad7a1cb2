"""Dispatch sends tokens of two ranks to their experts' ranks; combine brings them back."""

from __future__ import annotations

import pytest

from ranks import run_ranks

SCRIPT = """
import torch_npu.dynamo

WIDTH, CHOICES = 6, 2
name = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
moe = ranks - SHARED
experts = 3 * moe
here = 1 if rank < SHARED else 3


def tokens_of(r):
    torch.manual_seed(r)
    count = 4 - r if UNEVEN else 4
    x = torch.randn(count, WIDTH, dtype=KIND)
    ids = torch.stack([torch.randperm(experts)[:CHOICES] for _ in range(count)])
    return x, ids.to(torch.int32), torch.rand(count, CHOICES)


smooth = torch.rand(experts + (SHARED > 0), WIDTH, generator=torch.manual_seed(9)) + 0.5
common = dict(
    group_ep=name, ep_world_size=ranks, ep_rank_id=rank, moe_expert_num=experts,
    shared_expert_rank_num=SHARED, global_bs=4 * ranks if UNEVEN else 0,
)


def dispatch(x, ids, weights):
    return torch_npu.npu_moe_distribute_dispatch(
        x, ids, scales=smooth if QUANT else None, expert_scales=weights,
        quant_mode=QUANT, expert_token_nums_type=TYPE, **common,
    )


def layer(x, ids, weights, **options):
    rows, factors, idx, sizes, counts, _, _ = dispatch(x, ids, weights)
    ends = sizes if TYPE == 0 else sizes.cumsum(0)
    values = rows.float() * factors.unsqueeze(-1) if QUANT else rows.float()
    first = 0 if rank < SHARED else 1 + (rank - SHARED) * 3
    number = torch.bucketize(torch.arange(rows.shape[0]), ends, right=True) + first
    made = (values * (number + 1).unsqueeze(-1)).to(x.dtype)
    return torch_npu.npu_moe_distribute_combine(
        made, ids, idx, counts, weights, **common, **options
    )


x, ids, weights = tokens_of(rank)
rows, factors, idx, sizes, counts, tp, scales = dispatch(x, ids, weights)

# By a loop: (expert, from, token, row, weight) of all that this rank gets
wanted = []
for source in range(ranks):
    sx, sids, sweights = tokens_of(source)
    for t in range(sx.shape[0]):
        for k in range(CHOICES):
            expert = int(sids[t, k])
            if SHARED + expert // 3 == rank:
                wanted.append((expert, source, t, sx[t], sweights[t, k]))
        if SHARED and source // (ranks // SHARED) == rank:
            wanted.append((-1, source, t, sx[t], torch.tensor(1.0)))
wanted.sort(key=lambda w: w[:3])
total = len(wanted)
firsts = [-1] if rank < SHARED else [(rank - SHARED) * 3 + n for n in range(3)]
found = [sum(w[0] == e for w in wanted) for e in firsts]
ends = [sum(found[: n + 1]) for n in range(len(found))]
assert sizes.tolist() == (found if TYPE else ends), (sizes, found)
assert counts.shape == (here * ranks,) and int(counts[-1]) == total
assert not rows[total:].any() and rows.shape[0] >= total
for n, (expert, source, t, row, weight) in enumerate(wanted):
    if QUANT:
        row = row.float() * smooth[expert + (SHARED > 0)]
        torch.testing.assert_close(factors[n], row.abs().max() / 127)
        torch.testing.assert_close(rows[n] * factors[n], row, atol=0.02, rtol=0)
    else:
        assert torch.equal(rows[n], row)
    assert scales[n] == weight

result = layer(x, ids, weights)
near = dict(atol=0.2, rtol=0.05)
factor = (weights * (ids + 2)).sum(1, keepdim=True) + (1 if SHARED else 0)
if QUANT:  # rows come smoothed
    parts = [(weights[:, k:k+1] * (ids[:, k:k+1] + 2)) * smooth[ids[:, k].long() + (SHARED > 0)]
             for k in range(CHOICES)]
    factor = sum(parts) + (smooth[0] if SHARED else 0)
torch.testing.assert_close(result.float(), x.float() * factor, **near)
assert result.dtype == KIND and tp.numel() == 0

run = torch.compile(layer, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=False)
torch.testing.assert_close(run(x, ids, weights).float(), result.float(), **near)

# Of int8 on the way: half a step of each row that an expert made, times its weight.
coarse = layer(x, ids, weights, comm_quant_mode=2).float()
largest = (x.float() * factor).abs().amax(-1, keepdim=True) * (CHOICES + 1)
steps = (coarse - result.float()).abs() / (largest / 127)
assert 0 < steps.max() < 2, steps.max()
found = run(x, ids, weights, comm_quant_mode=2).float()
torch.testing.assert_close(found, coarse, atol=float(largest.max() / 60), rtol=0)
"""


@pytest.mark.parametrize(
    ("shared", "quant", "uneven", "kind"),
    [
        (0, 0, False, "bfloat16"),
        (0, 2, True, "float16"),
        (1, 0, True, "float32"),
        (1, 2, False, "bfloat16"),
    ],
)
def test_there_and_back(shared, quant, uneven, kind, tmp_path) -> None:
    settings = f"SHARED, QUANT, UNEVEN = {shared}, {quant}, {uneven}\n"
    settings += f"KIND, TYPE = torch.{kind}, {int(uneven)}\n"
    run_ranks(tmp_path, settings + SCRIPT, 2)


WRONG = """
name = dist.group.WORLD.group_name
x, ids, weights = torch.randn(4, 6), torch.zeros(4, 2, dtype=torch.int32), torch.rand(4, 2)
given = dict(group_ep=name, ep_world_size=ranks, ep_rank_id=rank, moe_expert_num=4)
for change, text in (
    ({"ep_world_size": 3, "moe_expert_num": 3}, "ep_world_size 3 and ep_rank_id"),
    ({"moe_expert_num": 5}, "5 experts do not divide among 2 ranks"),
    ({"shared_expert_rank_num": 2}, "must be from 0 to 1, got 2"),
    ({"global_bs": 5}, "global_bs must be a multiple of 2, got 5"),
    ({"global_bs": 2}, "global_bs 2 has no place for 4 rows"),
    ({"quant_mode": 1}, "quant_mode must be 0 or 2, got 1"),
    ({"scales": torch.ones(4, 6)}, "scales need quant_mode 2"),
    ({"tp_world_size": 2}, r"tp_world_size must be one of \\(0, 1\\), got 2"),
    ({"shared_expert_num": 2}, "shared_expert_num must be one of"),
    ({"expert_token_nums_type": 2}, "no such expert_token_nums_type: 2"),
    ({"expert_scales": torch.ones(4, 3)}, "expert_scales must have shape"),
):
    with pytest.raises(RuntimeError, match="npu_moe_distribute_dispatch: .*" + text):
        torch_npu.npu_moe_distribute_dispatch(x, ids, **given | change)
rows = torch.zeros(16, 6)
idx, counts = torch.zeros(8, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
for change, text in (
    ({"comm_quant_mode": 1}, "comm_quant_mode must be 0 or 2, got 1"),
    ({"global_bs": 16}, r"expand_x must have shape \\(32, 6\\)"),
    ({"group_list": counts}, "group_list must be None"),
):
    with pytest.raises(RuntimeError, match="npu_moe_distribute_combine: .*" + text):
        torch_npu.npu_moe_distribute_combine(
            rows, ids, idx, counts, weights, **given | change
        )
"""


def test_what_does_not_go_together(tmp_path) -> None:
    run_ranks(tmp_path, WRONG, 2)


def test_groups_by_the_name_of_npus(tmp_path) -> None:
    script = """
group = dist.new_group([0, 1], backend="hccl")
name = group._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
assert dist.distributed_c10d._resolve_process_group(name).size() == 2
total = torch.tensor([rank + 1.0])
dist.all_reduce(total, group=group)
assert total.item() == 3
"""
    run_ranks(tmp_path, script, 2)
