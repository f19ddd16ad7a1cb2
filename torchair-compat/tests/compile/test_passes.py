"""A user's patterns, Inductor's passes, and counts of operators."""

from __future__ import annotations

import csv

import pytest
import torch

import anabranch
import torchair
from pictures import compiled
from torchair._impl.compile import patterns as registered


@pytest.fixture
def patterns(monkeypatch):
    """Removes all registered patterns; the test adds its own."""
    monkeypatch.setattr(registered, "_passes", [])


def search(x, y):
    return (x * y) + x


def replacement(x, y):
    return torch.sin(x) - y


def register(**options) -> None:
    examples = [torch.randn(2, 3), torch.randn(2, 3)]
    torchair.register_replacement(search, replacement, examples, **options)


def model(x, y):
    return search(x.exp(), y).relu()


def replaced(x, y):
    return replacement(x.exp(), y).relu()


INPUTS = torch.randn(4, 5), torch.randn(4, 5)


@pytest.mark.parametrize("dynamic", [False, True])
def test_patterns_are_replaced(patterns, config, dynamic) -> None:
    register()
    with torch.no_grad():
        found = compiled(model, config, dynamic=dynamic)(*INPUTS)
    torch.testing.assert_close(found, replaced(*INPUTS))
    assert anabranch.counters.fallback_calls == 0


def test_patterns_are_not_replaced_where_the_option_is_off(patterns, config) -> None:
    register()
    config.experimental_config.pattern_fusion_pass = False
    torch.testing.assert_close(compiled(model, config)(*INPUTS), model(*INPUTS))


def test_the_check_decides(patterns) -> None:
    seen = []

    def check(match) -> bool:
        seen.append(match)
        return False

    register(extra_check=check)
    torch.testing.assert_close(compiled(model)(*INPUTS), model(*INPUTS))
    assert len(seen) == 1


def streams(first, second):
    def function(x, y):
        with torchair.scope.npu_stream_switch(first):
            product = x * y
        with torchair.scope.npu_stream_switch(second):
            return product + x

    return function


def test_a_pattern_stays_on_one_stream(patterns, caplog, debug) -> None:
    seen = []
    register(extra_check=lambda match: not seen.append(match))
    found = compiled(streams("1", "2"))(*INPUTS)
    torch.testing.assert_close(found, search(*INPUTS))
    assert not seen
    assert "Cross-stream operation detected in pattern match" in caplog.text
    found = compiled(streams("1", "1"))(*INPUTS)
    torch.testing.assert_close(found, replacement(*INPUTS))


@pytest.mark.checklist("T039")
def test_inductors_joint_passes(config) -> None:
    """Inductor's joint passes remove a multiplication by one."""
    config.experimental_config.npu_fx_pass = True
    operators = []
    config.post_grad_custom_pre_pass = lambda m, *_: operators.extend(
        str(n.target) for n in m.graph.nodes if n.op == "call_function"
    )

    def function(x):
        return x * torch.ones(4, 5) + 1

    x = INPUTS[0]
    with torch.no_grad():
        torch.testing.assert_close(compiled(function, config)(x), x + 1)
    assert "aten.add.Tensor" in operators
    assert "aten.mul.Tensor" not in operators


def rows(folder) -> list[dict[str, str]]:
    (path,) = folder.glob("summary_rank_0_pid_*_ts_*.csv")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.checklist("T135")
@pytest.mark.parametrize("skips", [True, False])
def test_counts_of_operators(config, tmp_path, monkeypatch, skips) -> None:
    monkeypatch.chdir(tmp_path)
    config.debug.fx_summary.type = "csv"
    config.debug.fx_summary.skip_compile = skips

    def function(x, y):
        return torch.special.airy_ai((x + y) * (x + 1) + y)

    run = compiled(function, config)
    if skips:
        with pytest.warns(UserWarning, match="npu compilation will be skipped, and FA"):
            found = run(*INPUTS)
    else:
        found = run(*INPUTS)
    torch.testing.assert_close(found, function(*INPUTS))
    assert (anabranch.counters.kernels == 0) == skips
    by_name = {row["目标函数"]: row for row in rows(tmp_path)}
    add = by_name["aten.add.Tensor"]
    assert (add["函数类型"], add["支持状态"], add["调用次数"]) == (
        "aten",
        "已支持",
        "3",
    )
    assert add["输入统计"].startswith("2次：(float32(4, 5), float32(4, 5))\n1次：")
    assert add["输出统计"] == "3次：float32(4, 5)"
    assert by_name["aten.special_airy_ai.default"]["支持状态"] == "未实现"


def test_capture_modes_count_nothing(config, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    config.mode = "npugraph_ex"
    config.debug.fx_summary.type = "csv"
    with pytest.warns(UserWarning, match="csv files will not be generated"):
        compiled(model, config)(*INPUTS)
    assert not list(tmp_path.iterdir())
    assert anabranch.counters.kernels > 0


def test_captured_kernels_are_joined_on_demand(config, monkeypatch) -> None:
    config.mode = "npugraph_ex"
    given = []
    compile_graph = anabranch.backend.compile_graph

    def keep(*arguments, config, **more):
        given.append(config.super_kernels)
        return compile_graph(*arguments, config=config, **more)

    monkeypatch.setattr(anabranch.backend, "compile_graph", keep)
    compiled(model, config)(*INPUTS)
    torch._dynamo.reset()
    config.experimental_config.aclgraph._super_kernel_optimize = True
    torch.testing.assert_close(compiled(model, config)(*INPUTS), model(*INPUTS))
    assert given == ["marked", "auto"]
