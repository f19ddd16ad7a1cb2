"""torchair.dynamo_export writes one of our packages, and the graph as text."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import anabranch
import torchair


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))

    def forward(self, x, y, scale=1.0):
        return self.inner(x) * scale + y


@pytest.mark.checklist("T139")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_what_is_written(tmp_path, dynamic, named) -> None:
    model = Model()
    home = tmp_path / "new" / "folder"
    x, y = torch.randn(5, 4), torch.randn(5, 3)
    arguments, names = ((x,), {"y": y}) if named else ((x, y), {})
    config = torchair.CompilerConfig()
    torchair.dynamo_export(
        *arguments,
        model=model,
        export_path=str(home),
        export_name="some/where/net",
        dynamic=dynamic,
        config=config,
        **names,
    )
    assert model.training
    assert model.inner[1].training
    assert config.export.export_mode
    assert str(config.export.export_path_dir) == str(home)
    assert sorted(p.name for p in home.iterdir()) == ["dynamo.pbtxt", "net.air"]
    text = (home / "dynamo.pbtxt").read_text()
    assert 'op: "NetOutput"' in text
    assert text.count('op: "Data"') >= 2
    package = anabranch.load(home / "net.air")
    model.eval()
    for rows in (5, 9) if dynamic else (5,):
        x, y = torch.randn(rows, 4), torch.randn(rows, 3)
        with torch.no_grad():
            wanted = model(x, y)
        found = package(x, y=y) if named else package(x, y)
        torch.testing.assert_close(torch.as_tensor(found), wanted)


@pytest.mark.checklist("T139")
def test_links_are_refused(tmp_path, caplog) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    torchair.dynamo_export(
        torch.ones(2, 4),
        torch.ones(3),
        model=Model(),
        export_path=str(tmp_path / "link"),
    )
    assert "is a symbolic link" in caplog.text
    assert not list((tmp_path / "real").iterdir())


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_can_not_be_exported(tmp_path) -> None:
    class Odd(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(anabranch.CompileError):
        torchair.dynamo_export(
            torch.ones(2), model=Odd(), export_path=str(tmp_path / "out")
        )
