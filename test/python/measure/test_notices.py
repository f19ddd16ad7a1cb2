"""Notices say what made the first calls slow, each once, and only where it is much."""

import json

import pytest
import torch

import anabranch
from anabranch.notices import cut_graphs, first_calls

CALLS = first_calls.CALLS


@pytest.fixture(autouse=True)
def quiet_start(monkeypatch):
    monkeypatch.setattr(first_calls, "_said", set())
    torch._dynamo.reset()


def run(function, *arguments, calls=CALLS, **options):
    compiled = torch.compile(function, backend="anabranch", options=options)
    with torch.no_grad():
        for _ in range(calls):
            compiled(*arguments)
    return anabranch.last_report()


def half_by_torch(x):
    return torch.special.bessel_j0(x * 2).abs()


def cut(x):
    y = x.sin()
    print(end="")
    return y.cos()


def test_pytorchs_operators_are_named(capsys):
    report = run(half_by_torch, torch.randn(256, 256))
    assert report["torch_share"] > first_calls.TORCH_SHARE
    [line] = capsys.readouterr().err.splitlines()
    assert f"{report['torch_share']:.0%} of a call" in line
    assert "aten::special_bessel_j0" in line and __file__ in line


def test_a_kernel_alone_needs_no_notice(capsys):
    report = run(lambda x: (x @ x).relu(), torch.randn(512, 512))
    assert report["torch_share"] == 0 and report["graph_breaks"] == []
    assert report["guard_share"] < 0.2
    assert capsys.readouterr().err == ""


def test_graph_breaks_have_the_users_line(capsys):
    report = run(cut, torch.randn(400, 400))
    line = cut.__code__.co_firstlineno + 2
    assert [entry["line"] for entry in report["graph_breaks"]] == [f"{__file__}:{line}"]
    found = capsys.readouterr().err
    assert found.count("a graph break cuts the model") == 1
    assert f"{__file__}:{line}" in found


def test_breaks_of_another_model_are_not_mine(capsys):
    run(cut, torch.randn(400, 400))
    report = run(lambda x: x.tan() + x, torch.randn(400, 400))
    assert report["graph_breaks"] == []


def test_guards_are_named_where_they_are_much(capsys, monkeypatch):
    seconds = 1e-3
    monkeypatch.setattr(first_calls.dynamo, "guard_seconds", lambda _: seconds)
    report = run(lambda x: x + 1, torch.randn(4))
    assert report["guard_share"] > 0.2
    assert "cache_compile" in capsys.readouterr().err


def test_guards_of_a_large_module_cost_time():
    layers = [torch.nn.Linear(4, 4) for _ in range(30)]
    report = run(torch.nn.Sequential(*layers), torch.randn(2, 4))
    assert 0 < report["guard_share"] <= 1


class Scaled(torch.nn.Module):
    factor = 2.0

    def forward(self, x):
        return x * self.factor


def test_guards_of_modules_can_be_dropped():
    """An attribute that changes after all is not seen; a shape still is."""
    model = torch.nn.Sequential(*(Scaled() for _ in range(30)))
    skip = torch.compiler.skip_guard_on_all_nn_modules_unsafe
    compiled = anabranch.compile(model, guard_filter_fn=skip, dynamic=False)
    x = torch.ones(2)
    assert compiled(x)[0] == 2.0**30
    model[0].factor = 4.0
    assert compiled(x)[0] == 2.0**30 and anabranch.counters.graphs == 1
    assert compiled(torch.ones(3)).shape == (3,) and anabranch.counters.graphs == 2
    assert anabranch.compile(model, dynamic=False)(x)[0] == 2.0**31


def test_a_cut_graph_counts_what_runs_between_its_programs(capsys):
    program = torch.compile(torch.tan, backend="anabranch", dynamic=False)
    x = torch.randn(50, 50)
    program(x)  # compiles

    def between(x):
        return torch.linalg.inv(program(x))

    graph = torch.fx.Graph()
    graph.output(graph.call_function(between, (graph.placeholder("x"),)))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    report = {"name": "cut", "outside": ["aten.linalg_inv"]}
    cut_graphs.watch(module, report, tells=True)
    for _ in range(CALLS):
        module.forward(x)
    assert 0 < report["torch_share"] < 1
    assert "aten.linalg_inv" in capsys.readouterr().err
    assert "forward" not in module.__dict__  # later calls are not timed


def test_a_whole_graph_through_pytorch_is_said_when_compiled(capsys):
    report = run(lambda x: x.to_dense() + 1, torch.eye(3).to_mkldnn(), calls=1)
    assert report["torch_share"] == 1
    assert "the whole graph runs through PyTorch" in capsys.readouterr().err


def test_the_option_silences_all(capsys):
    report = run(half_by_torch, torch.randn(256, 256), notices=False)
    assert report["torch_share"] > first_calls.TORCH_SHARE
    run(cut, torch.randn(400, 400), notices=False)
    run(lambda x: x.to_dense(), torch.eye(3).to_mkldnn(), calls=1, notices=False)
    assert capsys.readouterr().err == ""


def test_the_log_has_events(capsys, monkeypatch):
    monkeypatch.setenv("ANABRANCH_LOG", "json")
    run(half_by_torch, torch.randn(256, 256))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    [found] = [line for line in lines if line["event"] == "torch_operators"]
    assert found["torch_share"] > first_calls.TORCH_SHARE


def test_later_calls_are_not_timed(monkeypatch):
    heard = []
    listen = first_calls.FirstCalls.__call__

    def counting(self, *about):
        heard.append(about)
        return listen(self, *about)

    monkeypatch.setattr(first_calls.FirstCalls, "__call__", counting)
    run(lambda x: x + 2, torch.randn(8), calls=3 * CALLS)
    assert len(heard) == CALLS


def test_an_error_of_the_listener_does_not_reach_the_call(monkeypatch, recwarn):
    def fails(self, *about):
        raise RuntimeError("no")

    monkeypatch.setattr(first_calls.FirstCalls, "__call__", fails)
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)
    run(lambda x: x + 3, torch.randn(8))
