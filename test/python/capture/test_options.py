"""Options of `compile`, modes, and variables of the environment."""

import os

import pytest
import torch

import anabranch
from anabranch.config import Config, resolve
from anabranch.errors import OptionError


def test_an_unknown_option_lists_the_known_ones():
    with pytest.raises(ValueError, match="did you mean 'freeze'.*threads"):
        resolve({"freze": True})
    with pytest.raises(ValueError, match="unknown option 1"):
        resolve({1: True})  # type: ignore[dict-item]


def test_torch_compile_raises_a_value_error():
    compiled = torch.compile(
        lambda x: x + 1, backend=anabranch.anabranch, options={"nonsense": 1}
    )
    with pytest.raises(ValueError, match="unknown option 'nonsense'"):
        compiled(torch.ones(3))


def test_pin_binds_workers_to_cpus_of_the_process():
    def run(pin):
        torch._dynamo.reset()
        options = {"pin": pin, "threads": 2}
        function = torch.compile(
            lambda x: x.sin() + 1, backend=anabranch.anabranch, options=options
        )
        return function(torch.ones(100_000))

    mine = os.sched_getaffinity(0)
    for pin in ("cores", str(min(mine)), "off"):
        torch.testing.assert_close(run(pin), torch.ones(100_000).sin() + 1)
        assert os.sched_getaffinity(0) == mine
    with pytest.raises(ValueError, match="must be off, cores or a list of CPUs"):
        run("everywhere")
    with pytest.raises(ValueError, match="may use the CPUs"):
        run("0-9999")


@pytest.mark.parametrize(
    "values, error",
    [
        ({"pin": 1}, TypeError),
        ({"threads": -1}, ValueError),
        ({"threads": 1025}, ValueError),
        ({"threads": True}, TypeError),
        ({"threads": 1.5}, TypeError),
        ({"dump": ""}, ValueError),
        ({"dump": 5}, TypeError),
        ({"trace": "a\0b"}, ValueError),
        ({"freeze": 1}, TypeError),
        ({"gears_pad": "yes"}, TypeError),
        ({"streams": "many"}, ValueError),
        ({"shapes": "round"}, ValueError),
        ({"stop": "lunch"}, ValueError),
    ],
)
def test_values_are_checked(values, error):
    with pytest.raises(error):
        Config(**values)


def test_config_is_frozen():
    with pytest.raises(AttributeError):
        Config().freeze = True  # type: ignore[misc]


def test_modes():
    assert resolve(mode="max-autotune").freeze
    assert not resolve(mode="default").freeze
    assert not resolve({"freeze": False}, mode="max-autotune").freeze
    with pytest.raises(ValueError, match="unknown mode"):
        resolve(mode="fast")


def test_environment(monkeypatch):
    monkeypatch.setenv("ANABRANCH_EXPLAIN", "1")
    monkeypatch.setenv("ANABRANCH_STOP", "fuse")
    monkeypatch.setenv("ANABRANCH_NUM_THREADS", "3")
    found = resolve()
    assert found.explain and found.stop == "fuse" and found.threads == 3
    assert resolve({"threads": 1}).threads == 1
    assert resolve(config=Config(threads=2)).threads == 2
    monkeypatch.setenv("ANABRANCH_NUM_THREADS", "all")
    with pytest.raises(ValueError, match="ANABRANCH_NUM_THREADS"):
        resolve()


def test_compile_takes_options_by_name():
    model = torch.nn.Linear(4, 4).eval()
    compiled = anabranch.compile(model, config=Config(threads=1), freeze=True)
    x = torch.randn(2, 4)
    with torch.no_grad():
        assert torch.allclose(compiled(x), model(x), atol=1e-6)
    with pytest.raises(OptionError, match="unknown option 'freze'.*'freeze'"):
        anabranch.compile(model, freze=True)
