"""Functions and methods that a user saves to a folder, and loads without guards."""

from __future__ import annotations

import pytest
import torch

import torchair
from programs import run_script
from torchair._no_guard import NoGuardCompiledFunction, NoGuardCompiledMethod


def scaled(x, y, *, factor=2):
    return x * factor + y


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)

    def run(self, x):
        return self.fc(x).relu()


class Plain:
    def __init__(self) -> None:
        self.weight = torch.ones(3)

    def run(self, x):
        return x * 3


@pytest.fixture
def no_compiler(monkeypatch):
    def refuse():
        def fail(*_, **__):
            raise AssertionError("nothing was left to compile")

        monkeypatch.setattr(torch, "compile", fail)

    return refuse


@pytest.mark.checklist("T095")
def test_a_function(tmp_path, no_compiler) -> None:
    path = str(tmp_path / "saved")
    x, y = torch.randn(4, 3), torch.randn(3)
    saver = NoGuardCompiledFunction(scaled).for_inputs(x, y, factor=3)
    assert torch.equal(saver.save_to(path), x * 3 + y)
    no_compiler()
    loaded = NoGuardCompiledFunction.load(path)
    assert torch.equal(loaded(x, y, factor=3), x * 3 + y)
    z = torch.randn(7, 3)  # sizes are symbols
    assert torch.equal(loaded(z, y, factor=3), z * 3 + y)


@pytest.mark.checklist("T095")
def test_a_method_of_a_module(tmp_path, no_compiler) -> None:
    path, model, x = str(tmp_path / "saved"), Model(), torch.randn(2, 4)
    result = NoGuardCompiledMethod(model.run).for_inputs(x).save_to(path)
    torch.testing.assert_close(result, model.run(x))
    no_compiler()
    other = Model()
    loaded = NoGuardCompiledMethod.load(path, self=other)
    torch.testing.assert_close(loaded(x), other.run(x))


def test_a_method_of_another_class(tmp_path, no_compiler) -> None:
    path, x = str(tmp_path / "saved"), torch.randn(2, 4)
    NoGuardCompiledMethod(Plain().run).for_inputs(x).save_to(path)
    no_compiler()
    assert torch.equal(NoGuardCompiledMethod.load(path, self=Plain())(x), x * 3)


def test_a_local_function_is_given(tmp_path, no_compiler) -> None:
    path, x = str(tmp_path / "saved"), torch.randn(2, 4)

    def local(x):
        return x - 1

    NoGuardCompiledFunction(local).for_inputs(x).save_to(path)
    no_compiler()
    with pytest.raises(ValueError, match="give the function"):
        NoGuardCompiledFunction.load(path)
    assert torch.equal(NoGuardCompiledFunction.load(path, func=local)(x), x - 1)


def test_order_of_calls(tmp_path) -> None:
    path, x = str(tmp_path / "saved"), torch.ones(2)
    saver = NoGuardCompiledFunction(scaled)
    with pytest.raises(RuntimeError, match="for_inputs before"):
        saver.save_to(path)
    saver.for_inputs(x, x)
    with pytest.raises(RuntimeError, match="for_inputs was called already"):
        saver.for_inputs(x, x)
    saver.save_to(path)
    with pytest.raises(RuntimeError, match="for_inputs before"):
        saver.save_to(str(tmp_path / "other"))
    saver.for_inputs(x, x)
    with pytest.raises(ValueError, match="is already exists"):
        saver.save_to(path)


def test_what_can_not_be_saved(tmp_path) -> None:
    for wrong in (Model().run, len, 3):
        with pytest.raises(ValueError, match="Trying cache non-function"):
            NoGuardCompiledFunction(wrong)
    for wrong in (scaled, Model(), None):
        with pytest.raises(ValueError, match="Trying cache non-method"):
            NoGuardCompiledMethod(wrong)
    path = str(tmp_path / "nothing")
    with pytest.raises(ValueError, match="is not exists"):
        NoGuardCompiledFunction.load(path)
    with pytest.raises(ValueError, match="is not exists"):
        NoGuardCompiledMethod.load(path, self=Model())


def test_another_configuration_is_an_error_and_keeps_the_folder(tmp_path) -> None:
    path, x = tmp_path / "saved", torch.ones(2)
    NoGuardCompiledFunction(scaled).for_inputs(x, x).save_to(str(path))
    config = torchair.CompilerConfig()
    config.experimental_config.frozen_parameter = True
    loaded = NoGuardCompiledFunction.load(str(path), config=config)
    with pytest.raises(ValueError, match="can't be loaded"):
        loaded(x, x)
    assert path.is_dir()


SCRIPT = """
import os, torch, torchair
from torchair._no_guard import NoGuardCompiledFunction

def double(x):
    return x * 2 + 1

x = torch.arange(3.0)
if not os.path.exists("saved"):
    print(NoGuardCompiledFunction(double).for_inputs(x).save_to("saved"))
else:
    torch.compile = None
    print(NoGuardCompiledFunction.load("saved")(x))
"""


@pytest.mark.slow
def test_over_two_processes(tmp_path) -> None:
    first, second = (run_script(tmp_path, SCRIPT).stdout for _ in range(2))
    assert first == second == "tensor([1., 3., 5.])\n"
