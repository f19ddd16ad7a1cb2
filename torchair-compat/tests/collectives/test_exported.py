"""dynamo_export of a model with collectives, in each of two ranks."""

import pytest

from ranks import run_ranks

SCRIPT = """
import pathlib


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(rank)
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x)
        dist.all_reduce(y)
        z = y * (rank + 1)
        dist.broadcast(z, 1)
        return y, z


model = Model().eval()
torch.npu.set_device(rank)
with torch.no_grad():
    torchair.dynamo_export(torch.randn(3, 4).npu(), model=model, export_path="out", export_name="net")
    dist.barrier()
    home = pathlib.Path("out")
    names = {str(p.relative_to(home)) for p in home.rglob("*.pbtxt")}
    assert names == {f"rank_{r}/dynamo.pbtxt" for r in range(ranks)}, names
    text = (home / f"rank_{rank}" / "dynamo.pbtxt").read_text()
    for kind in ("HcomAllReduce", "HcomBroadcast"):
        assert text.count(f'op: "{kind}"') == 1, text
    package = anabranch.load(home / f"net{rank}.air")
    x = torch.randn(3, 4)
    for one, wanted in zip(package(x), model(x)):
        torch.testing.assert_close(torch.as_tensor(one), wanted)
"""


@pytest.mark.checklist("T139")
def test_each_rank_has_a_package(tmp_path) -> None:
    run_ranks(tmp_path, SCRIPT, 2)
