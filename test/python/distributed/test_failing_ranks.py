"""A rank dies, is late or calls another collective: the others report an error."""

from __future__ import annotations

import time

import pytest
from gloo_ranks import start_ranks

HEAD = """
def model(x, w):
    y = x @ w
    dist.all_reduce(y)
    return y + 1


def beside(x, w):
    y = x @ w
    z = (x + 1) @ w
    dist.all_reduce(y)
    dist.all_reduce(z)
    return y + z @ w


x, w = torch.randn(4, 8), torch.randn(8, 8)
with torch.no_grad():
    run = compiled(FUNCTION, fullgraph=True)
    run(x, w)
    dist.barrier()
    soon = datetime.timedelta(seconds=5)
    dist.distributed_c10d._set_pg_timeout(soon, dist.group.WORLD)
    try:
        WRONG
        run(x, w)
    except Exception as error:
        text = str(error)
        assert "all_reduce" in text and "process group" in text, text
        assert f"on rank {rank} of {ranks}" in text, text
        print("named", flush=True)
        os._exit(0)
print("no error", flush=True)
"""


@pytest.mark.parametrize("function", ["model", "beside"])
@pytest.mark.parametrize(
    "wrong",
    [
        "if rank == 1: os._exit(3)",
        "if rank == 1: import time; time.sleep(30)",
        "if rank == 1: dist.barrier()",
    ],
    ids=["dies", "is late", "calls another"],
)
def test_the_other_rank_hears_of_it(tmp_path, wrong, function) -> None:
    script = HEAD.replace("WRONG", wrong).replace("FUNCTION", function)
    began = time.monotonic()
    first, second = start_ranks(tmp_path, script, 2)
    try:
        printed, _ = first.communicate(timeout=300)
    finally:
        first.kill()
        second.kill()
        second.communicate()
    assert printed.endswith("named\n"), printed
    assert time.monotonic() - began < 290
