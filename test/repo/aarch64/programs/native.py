"""Multiplies bytes by code for this machine itself, and prints the features that the code
needs."""

import json
from pathlib import Path

import torch

import anabranch


class Bytes(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        weight = torch.randint(-127, 127, (72, 40), dtype=torch.int8)
        self.weight = torch.nn.Buffer(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch._int_mm(x, self.weight)


model, x = Bytes().eval(), torch.randint(-127, 127, (33, 72), dtype=torch.int8)
anabranch.export(model, "native.anb", (x,))
assert torch.equal(anabranch.load("native.anb")(x), model(x))
manifest = json.loads(Path("native.anb/manifest.json").read_text())
(target,) = manifest["targets"]
print(*target["features"])
