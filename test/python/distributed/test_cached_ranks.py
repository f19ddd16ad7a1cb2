"""The cache under process groups: all processes give a group one name."""

from __future__ import annotations

import pytest
from gloo_ranks import run_ranks

OTHER_MESH = """
from anabranch.collectives.groups import portable_name
from anabranch.collectives.operators import waiting

name = portable_name(dist.group.WORLD)
assert name == f"ranks {','.join(map(str, range(ranks)))} #0"
again = dist.new_group(list(range(ranks)))
assert portable_name(again).endswith("#1")
x = torch.ones(2)
all_reduce = waiting(torch.ops._c10d_functional.all_reduce.default)
for group in (name, portable_name(again), again.group_name):
    assert torch.equal(all_reduce(x, "sum", group), x * ranks)
try:
    all_reduce(x, "sum", "ranks 0,1 #5")
except RuntimeError as error:
    assert "0 process groups" in str(error) or "2 process groups" in str(error)
else:
    raise AssertionError
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_names_of_groups(tmp_path, ranks) -> None:
    run_ranks(tmp_path, OTHER_MESH, ranks)
