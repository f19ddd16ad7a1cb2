"""Which writes to weights a call sees: each cell of the table in docs/weights.md, and
what anabranch.refresh does."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
import torch
from torch import nn
from weight_updates import WRITES, Model, check, inferred, mlp

import anabranch
from anabranch import CompileError, FrozenWeightError

PAGE = Path(__file__).parents[3] / "docs" / "weights.md"


def table() -> list[tuple[str, str, str]]:
    rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in PAGE.read_text().splitlines()
        if line.startswith("|")
    ]
    kinds = rows[0][1:]
    assert [row[0] for row in rows[2:]] == list(WRITES)
    return [
        (row[0], kind, cell)
        for row in rows[2:]
        for kind, cell in zip(kinds, row[1:], strict=True)
    ]


def by_torch(model, **options):
    return torch.compile(model, backend=anabranch.anabranch, options=options)


def exported(model, folder):
    anabranch.export(model, folder / "package", (torch.randn(16, 32),))
    return anabranch.load(str(folder / "package"))


def cached(model, folder):
    """A replay: another method has recorded the entry."""
    for _ in range(2):
        call = anabranch.cache_compile(
            model.forward, cache_dir=str(folder), config=anabranch.Config(freeze=True)
        )
        call(torch.randn(16, 32))
        torch._dynamo.reset()
    return call


KINDS = {
    "live": lambda model, folder: by_torch(model, watch=False),
    "watched": lambda model, folder: by_torch(model),
    "frozen": lambda model, folder: by_torch(model, freeze=True),
    "cached": cached,
    "exported": exported,
}


def result(compiled, x) -> torch.Tensor:
    found = compiled(x)
    return found[0] if isinstance(found, tuple | list) else found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("how", "kind", "when"), table())
def test_a_write_is_seen_as_the_page_says(
    how, kind, when, tmp_path, monkeypatch
) -> None:
    monkeypatch.delenv("ANABRANCH_CACHE")
    with torch.inference_mode(WRITES[how] is inferred):
        model, x = Model().eval(), torch.randn(16, 32)
    with torch.no_grad():
        if when == "refused":
            with pytest.raises(CompileError, match="inference"):
                KINDS[kind](model, tmp_path)
            return
        compiled = KINDS[kind](model, tmp_path)
        check(result(compiled, x), model(x))
        WRITES[how](model)
        if when == "once":
            check(result(compiled, x), model(x))
        assert (when == "once") == torch.allclose(
            result(compiled, x), model(x), atol=1e-3
        )
        anabranch.refresh(model)
        seen = torch.allclose(result(compiled, x), model(x), atol=1e-3)
        assert seen == (when != "never")


def test_refresh_names_what_changed_and_compiles_nothing() -> None:
    model, x = mlp(), torch.randn(3, 9)
    compiled = by_torch(model, freeze=True)
    with torch.no_grad():
        compiled(x)
        assert anabranch.refresh(compiled) == []
        anabranch.counters.reset()
        model[0].weight.data[2] += 1
        model[2].bias.data.add_(1)
        assert anabranch.refresh(compiled) == ["0.weight", "2.bias"]
        assert anabranch.counters.repacked == 1
        check(compiled(x), model(x))
        assert anabranch.refresh(compiled) == []
        assert anabranch.counters.repacked == 1
        assert anabranch.counters.compiles == 0


def test_every_layout_of_a_weight_is_packed_again() -> None:
    class Layouts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.image = nn.Conv2d(3, 8, 3)
            self.norm = nn.BatchNorm2d(8)
            self.columns = nn.Parameter(torch.randn(4, 8).t())
            self.part = nn.Parameter(torch.randn(4, 9)[:, :4])
            self.number = nn.Parameter(torch.tensor(2.0))

        def forward(self, x):
            y = self.norm(self.image(x)).mean((2, 3))
            return y @ self.columns @ self.part * self.number

    model, x = Layouts().eval(), torch.randn(2, 3, 8, 8)
    for dtype in (torch.float32, torch.bfloat16):
        model, x = model.to(dtype), x.to(dtype)
        compiled = by_torch(model, freeze=True)
        with torch.no_grad():
            compiled(x)
            for tensor in (*model.parameters(), model.norm.running_mean):
                tensor.data.mul_(1.5)
                anabranch.refresh(model)
            loose = {"rtol": 4e-2, "atol": 4e-2} if dtype == torch.bfloat16 else {}
            torch.testing.assert_close(compiled(x), model(x), **loose)


def test_ranges_of_integers_that_change_are_compiled() -> None:
    class Integers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.randint(0, 8, (32, 32)).to(torch.int8))

        def forward(self, x):
            return x @ self.table.to(x.dtype)

    model, x = Integers(), torch.randn(4, 32)
    compiled = by_torch(model, freeze=True)
    with torch.no_grad():
        compiled(x)
        model.table.data[3, 3] = 100
        assert anabranch.refresh(model) == ["table"]
        check(compiled(x), model(x))


def test_strict_weights_change_when_the_owner_says_so() -> None:
    model, x = mlp(), torch.randn(3, 9)
    compiled = by_torch(model, freeze="strict")
    with torch.no_grad():
        compiled(x)
        model[2].weight.mul_(2)
        with pytest.raises(FrozenWeightError, match=r"2\.weight"):
            compiled(x)
        anabranch.refresh(model)
        check(compiled(x), model(x))


def test_calls_of_other_threads_see_old_or_new_weights() -> None:
    model, x = Model().eval(), torch.ones(16, 32)
    compiled = by_torch(model, freeze=True)
    wrong: list[torch.Tensor] = []
    done = threading.Event()

    def ask() -> None:
        with torch.no_grad():
            while not done.is_set():
                found = compiled(x)
                if not bool((found == found[0, 0]).all()):
                    wrong.append(found)

    with torch.no_grad():
        model.weight.data.fill_(1)
        compiled(x)
        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(8):
            model.weight.data.fill_(number)
            anabranch.refresh(model)
        done.set()
        for thread in threads:
            thread.join()
        check(compiled(x), model(x))
    assert not wrong


@pytest.mark.parametrize("target", [None, torch.nn.functional.relu, 3])
def test_what_is_no_module_is_refused(target) -> None:
    with pytest.raises(TypeError, match="refresh takes a module"):
        anabranch.refresh(target)
