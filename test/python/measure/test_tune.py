"""The option `tune` and `anabranch tune`: timing, keeping and finding blockings."""

from __future__ import annotations

import json
import warnings

import pytest
import torch
from torch import nn

import anabranch
from anabranch import cli
from anabranch.config import Config
from anabranch.errors import OptionError
from anabranch.measure.subject import load_model
from anabranch.packages import cache, package, tuner, tuning

WORKLOAD = """
import torch
def workload():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.GELU())
    return model.eval(), (torch.randn(48, 64),)
def wrong():
    return torch.nn.Linear(4, 4).eval(), (torch.randn(3, 5),)
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ANABRANCH_CACHE", "1")
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path / "home"))
    cache._warned.clear()
    return tmp_path / "home"


@pytest.fixture
def quick(monkeypatch):
    """Makes tuning try few candidates, in few turns."""
    monkeypatch.setattr(tuner, "MOST_CANDIDATES", 3)
    monkeypatch.setattr(tuner, "MOST_TURNS", 3)
    monkeypatch.setattr(tuner, "TURN_SECONDS", 1e-6)


@pytest.fixture
def timed(monkeypatch):
    """The number of packages that tuning made in order to time them."""
    made = []
    write = package.write

    def count(described, config, path, *arguments, list_blockings=0, **named):
        if list_blockings or described.blockings:
            made.append(dict(described.blockings))
        named["list_blockings"] = list_blockings
        return write(described, config, path, *arguments, **named)

    monkeypatch.setattr(package, "write", count)
    return made


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 32)).eval()


def run(model, *arguments, **options):
    torch._dynamo.reset()
    compiled = anabranch.compile(model, threads=1, **options)
    with torch.no_grad(), tuning.collecting() as results:
        torch.testing.assert_close(
            compiled(*arguments), model(*arguments), atol=1e-4, rtol=1e-4
        )
    return results


@pytest.mark.parametrize("freeze", [False, True])
def test_results_are_right_and_kept(home, quick, timed, freeze):
    model, x = network(), torch.randn(48, 64)
    options = {"tune": True, "tune_seconds": 2.0, "freeze": freeze}
    first = run(model, x, **options)
    assert len(first) == 2 and len(timed) >= 2
    for result in first.values():
        assert 0 < result["us"] <= result["default_us"]
    timed.clear()
    assert run(model, x, **options) == first
    assert not timed


def test_kernels_of_another_graph_are_not_timed_again(home, quick, timed):
    model, x = network(), torch.randn(48, 64)
    options = {"tune": True, "tune_seconds": 2.0, "freeze": True}
    first = run(model, x, **options)
    timed.clear()
    wrapped = nn.Sequential(model[0], model[1], model[2], nn.Softplus()).eval()
    second = run(wrapped, x, **options)
    shared = first.keys() & second.keys()
    assert shared and all(first[key] == second[key] for key in shared)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_candidate_is_right(monkeypatch, home, dtype):
    """The model computes the same with every candidate."""
    torch.manual_seed(1)
    model = nn.Linear(200, 130).eval().to(dtype)
    x = torch.randn(70, 200).to(dtype)
    expected = model(x).detach()
    tolerance = 1e-4 if dtype == torch.float32 else 5e-2
    seen = []

    def try_all(described, config, binding, known, clock, until=1.0):
        with tuner.scratch.folder() as folder:
            maker = tuner._Maker(described, config, binding, folder)
            kernels, _ = maker.default()
            for blockings in tuner._rounds(kernels):
                variant = maker.make(blockings)
                inputs = [i["name"] for i in variant.executable.inputs]
                assert len(inputs) == 1
                (result,) = variant.executable([x])
                torch.testing.assert_close(
                    result, expected, atol=tolerance, rtol=tolerance
                )
                seen.append(blockings)
        return {}

    monkeypatch.setattr(tuner, "tune", try_all)
    compiled = anabranch.compile(model, tune=True, freeze=True, threads=1)
    with torch.no_grad():
        compiled(x)
    assert len(seen) == tuner.MOST_CANDIDATES - 1


def test_winners_reach_the_compiler(home, monkeypatch, timed):
    def choose(described, config, binding, known, clock, until=1.0):
        with tuner.scratch.folder() as folder:
            kernels, _ = tuner._Maker(described, config, binding, folder).default()
        return {k["key"]: {"parameters": "depth=32"} for k in kernels}

    monkeypatch.setattr(tuner, "tune", choose)
    results = run(network(), torch.randn(48, 64), tune=True)
    assert timed[-1] == dict.fromkeys(results, "depth=32")


def test_sizes_that_change_are_left_to_the_compiler(home, quick, timed):
    assert not run(network(), torch.randn(48, 64), tune=True, shapes="dynamic")
    assert not timed


def test_integers_arguments_and_gears(home, quick):
    class Lookup(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(9, 64)
            self.linear = nn.Linear(64, 96)

        def forward(self, ids, x):
            return self.linear(self.table(ids)) + x

    x = torch.randn(48, 96)
    ids = torch.randint(0, 9, (48,))
    torch._dynamo.reset()
    options = {"tune": True, "tune_seconds": 1.0, "threads": 1, "freeze": True}
    model = Lookup().eval()
    compiled = torch.compile(model, backend="anabranch", options=options)
    with torch.no_grad(), tuning.collecting() as results:
        anabranch.set_gears(ids, {0: [48, 64]})
        anabranch.set_gears(x, {0: [48, 64]})
        torch.testing.assert_close(
            compiled(ids, x), model(ids, x), atol=1e-4, rtol=1e-4
        )
    assert len(results) == 2


def test_exported_packages_are_tuned(home, quick, timed, tmp_path):
    model, x = network(), torch.randn(48, 64)
    config = Config(tune=True, tune_seconds=2.0, threads=1)
    anabranch.export(model, tmp_path / "model.anb", (x,), config=config)
    assert timed
    result = anabranch.load(tmp_path / "model.anb")(x)
    torch.testing.assert_close(result, model(x).detach(), atol=1e-4, rtol=1e-4)


def test_without_a_cache_it_is_timed_each_time(monkeypatch, quick, timed):
    for _ in range(2):
        timed.clear()
        run(network(), torch.randn(48, 64), tune=True, tune_seconds=1.0)
        assert timed


def test_a_graph_that_can_not_be_timed_compiles(home, monkeypatch):
    def fail(*_arguments):
        raise RuntimeError("no room")

    monkeypatch.setattr(tuner, "tune", fail)
    with pytest.warns(UserWarning, match="the graph is not tuned: no room"):
        run(network(), torch.randn(48, 64), tune=True)


def test_best_needs_more_than_luck():
    kernel = {"kernel": "k", "key": "key"}

    def variant(blocking, *times):
        return tuner.Variant({"key": blocking}, None, [], {"k": list(times)})

    default = variant("", 10.0, 10.0, 11.0, 30.0)
    for times, wins in (
        ((9.0, 9.5, 9.5, 9.5), True),
        ((9.9, 9.9, 9.9, 9.9), False),  # a difference within the noise
        ((8.0, 12.0, 12.0, 12.0), False),  # a single turn
    ):
        best = tuner._best(kernel, [default, variant("depth=8", *times)])
        assert best["parameters"] == ("depth=8" if wins else "")
        assert best["default_us"] == 10
    never = tuner.Variant({}, None, [], {})
    assert tuner._best(kernel, [never]) == {"parameters": ""}


def test_options():
    with pytest.raises(ValueError, match="tune_seconds must be positive, got 0"):
        Config(tune_seconds=0)
    with pytest.raises(TypeError, match="tune_seconds must be a number"):
        Config(tune_seconds="30")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tune must be a path"):
        Config(tune="")
    with pytest.raises(TypeError):
        Config(tune=3)  # type: ignore[arg-type]


def test_the_compiler_refuses_what_is_no_blocking(tmp_path):
    for blockings in ('{"a": "depth=x"}', '["depth=1"]', '{"a": 3}'):
        with pytest.raises(Exception, match="option 'blockings'"):
            anabranch._C.compile("{}", [], f'{{"blockings": {blockings}}}', "p")
    with pytest.raises(Exception, match="'list_blockings' must be a number"):
        anabranch._C.compile("{}", [], '{"list_blockings": -1}', "p")


# Files and the command


@pytest.fixture
def workload(tmp_path):
    path = tmp_path / "tuned_model.py"
    path.write_text(WORKLOAD)
    return str(path)


@pytest.fixture
def file(home, quick, workload, tmp_path, capsys):
    path = tmp_path / "tuned.json"
    command = ["tune", workload, "--seconds", "2", "--threads", "1"]
    assert cli.main([*command, "-o", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "default us" in printed and "1 kernels of products" in printed
    return path


def test_a_file_is_used(file, workload, timed):
    record = json.loads(file.read_text())
    (key,) = record["blockings"]
    record["blockings"][key]["parameters"] = "depth=16"
    file.write_text(json.dumps(record))
    subject = load_model(workload)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        run(subject.model, *subject.positional, tune=str(file), freeze=True)
    assert timed == [{key: "depth=16"}]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("machine", "another", "another machine"),
        ("compiler", "another", "another version of Anabranch"),
        ("runtime", "0.0.1", "another version of Anabranch"),
        ("format", 99, "another version of tuning files"),
    ],
)
def test_a_foreign_file_is_ignored_with_one_line(file, timed, field, value, words):
    record = json.loads(file.read_text())
    file.write_text(json.dumps(record | {field: value}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            assert not run(network(), torch.randn(48, 64), tune=str(file))
    lines = [str(w.message) for w in caught if "tuned.json" in str(w.message)]
    assert len(lines) == 1 and lines[0].endswith(f"is ignored: it is of {words}")
    assert "\n" not in lines[0] and not timed


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1}', "no json"])
def test_a_file_that_is_none_is_an_error(tmp_path, text):
    path = tmp_path / "tuned.json"
    path.write_text(text)
    with pytest.raises(OptionError, match="is no tuning file"):
        run(network(), torch.randn(48, 64), tune=str(path))


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(OptionError, match="the tuning file can't be read"):
        run(network(), torch.randn(48, 64), tune=str(tmp_path / "nothing.json"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.py"], "there is no file nowhere.py"),
        (["."], "is a folder: a package is tuned when it is exported"),
        (["MODEL", "--seconds", "0"], "--seconds must be positive"),
        (["MODEL", "--threads", "-1"], "--threads must be from 0 to 1024"),
        (["MODEL", "-o", "no/such/file"], "there is no folder"),
        (["MODEL:wrong"], "the call fails: "),
    ],
)
def test_mistakes_of_the_command(arguments, words, workload, capsys, home):
    given = [a.replace("MODEL", workload) for a in arguments]
    assert cli.main(["tune", *given]) == 1
    assert words in capsys.readouterr().err
