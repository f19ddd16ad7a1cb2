"""anabranch.verify_weights names the weights that were written silently, and no others:
each way of writing of docs/weights.md."""

from __future__ import annotations

import gc
import queue

import pytest
import torch
from weight_updates import WRITES, Counting, Model, inferred

import anabranch
from anabranch.packages import verifying
from anabranch.packages.verifying import WeightVerifier

SILENT = {
    "`weight.data.copy_`",
    "one row of `weight.data`",
    "all of `weight.detach().numpy()`",
    "one element of `weight.detach().numpy()`",
    "`copy_` into a weight made in inference mode",
}
SECONDS = 0.01


def by_torch(model, **options):
    return torch.compile(model, backend=anabranch.anabranch, options=options)


def verifier_of(model: torch.nn.Module) -> WeightVerifier:
    """One without a thread, which has seen the weights."""
    made = WeightVerifier(model, print)
    assert made.look() == []
    return made


@pytest.mark.parametrize("how", WRITES)
def test_a_silent_write_is_named_once(how) -> None:
    with torch.inference_mode(WRITES[how] is inferred):
        model = Model().eval()
    verifier = verifier_of(model)
    with torch.no_grad():
        WRITES[how](model)
    assert verifier.look() == (["weight"] if how in SILENT else [])
    assert verifier.look() == []


def test_a_refresh_is_no_silent_write() -> None:
    model, x = Model().eval(), torch.randn(4, 32)
    compiled = by_torch(model, freeze=True)
    with torch.no_grad():
        compiled(x)
        verifier = verifier_of(model)
        model.weight.data[3] = 1
        assert anabranch.refresh(model) == ["weight"]
    assert verifier.look() == []


@pytest.mark.parametrize("options", [{}, {"watch": False}, {"freeze": True}])
def test_what_a_program_writes_is_not_silent(options) -> None:
    model = Counting().eval()
    compiled = by_torch(model, **options)
    with torch.no_grad():
        compiled(torch.ones(4))
        verifier = verifier_of(model)
        compiled(torch.ones(4))
        assert verifier.look() == []
        model.weight.data[1] = 7
        assert verifier.look() == ["weight"]


def test_a_write_that_is_counted_late_is_not_silent(monkeypatch) -> None:
    """A thread may stop between a write and its count."""
    model = Model()
    verifier = verifier_of(model)
    model.weight.data.add_(1)

    def counted(seconds: float) -> bool:
        with torch.no_grad():
            model.weight.add_(0)
        return False

    monkeypatch.setattr(verifier.closed, "wait", counted)
    assert verifier.look() == []


def test_the_thread_tells(capsys) -> None:
    told: queue.Queue[list[str]] = queue.Queue()
    model = Model()
    verifier = anabranch.verify_weights(model, seconds=SECONDS, tell=told.put)
    model.weight.data[0] = 5
    assert told.get(timeout=60) == ["weight"]
    verifier.close()
    assert capsys.readouterr().err == ""


def test_the_line_names_all_weights(capsys) -> None:
    verifying._say(["a.weight", "b.bias"])
    assert "a.weight, b.bias: written without PyTorch's" in capsys.readouterr().err


def test_the_thread_ends_with_the_module() -> None:
    model = Model()
    verifier = anabranch.verify_weights(model, seconds=SECONDS)
    del model
    gc.collect()
    assert verifier.closed.wait(60)
    assert verifier.look() == []


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="verify_weights takes a module"):
        anabranch.verify_weights(3)
    for seconds, error in ((0, ValueError), ("1", TypeError)):
        with pytest.raises(error, match="seconds must be"):
            anabranch.verify_weights(Model(), seconds=seconds)
