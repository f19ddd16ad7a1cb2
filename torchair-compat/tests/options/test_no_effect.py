"""Options without a meaning on a CPU are accepted, with one warning in each process, and do
not change results. Options of the process are options of each graph here.
"""

from __future__ import annotations

import warnings

import pytest
import torch

import torch_npu
import torchair
from pictures import compiled
from torchair._impl.options.table import ROWS

X = torch.randn(8, 8)


def value_of(row, folder):
    """A value other than the default."""
    table = folder / "file.json"
    table.write_text("{}")
    known = row.kind.allowed
    if known:
        return next((v for v in known if v != row.default), known[0])
    path = row.path.rpartition(".")[2]
    if "path" in path and "config" not in path:
        return str(folder)
    if "file" in path or "config_path" in path:
        return str(table)
    return {} if "options" in path else "24|48" if path == "aicore_num" else "Pass1:on"


NO_EFFECT = [row for row in ROWS if row.status == "none"]


@pytest.mark.checklist("T148")
@pytest.mark.parametrize("row", NO_EFFECT, ids=lambda row: row.path)
def test_options(config, tmp_path, row) -> None:
    *groups, name = row.path.split(".")
    group = config
    for part in groups:
        group = getattr(group, part)
    value = value_of(row, tmp_path)
    with pytest.warns(
        UserWarning, match=f"config.{row.path} has no effect on this host"
    ):
        setattr(group, name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        setattr(group, name, value)
    if "aclgraph" in row.path:
        config.mode = "npugraph_ex"
    run = compiled(lambda x: (x @ x).relu() + 1, config)
    torch.testing.assert_close(run(X), (X @ X).relu() + 1)


def prioritised(x):
    with torchair.scope.npu_stream_switch("1", 3):
        return x * 2


def parallel(x):
    with torchair.scope.npu_stream_switch("1", 0, False):
        return x * 2


def unlimited(x):
    with torchair.scope.limit_core_num(0, 1):
        return x * 2


def patient(x):
    with torchair.scope.op_never_timeout(True):
        return x * 2


def fused(x):
    with torchair.scope.super_kernel("s", "feed-sync-all=1"):
        return x * 2


SCOPES = {
    "stream_priority has no effect": prioritised,
    "enable_inner_parallel=False has no effect": parallel,
    "limit_core_num": unlimited,
    "op_never_timeout has no effect": patient,
    "feed-sync-all": fused,
}


@pytest.mark.checklist("T148")
@pytest.mark.parametrize("text", SCOPES)
def test_scopes(config, text) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            torch._dynamo.reset()
            assert torch.equal(compiled(SCOPES[text], config)(X), X * 2)
    assert sum(text in str(one.message) for one in caught) == 1


@pytest.mark.checklist("T148")
def test_super_kernels_of_a_capture_mode(config) -> None:
    config.mode = "npugraph_ex"

    def function(x):
        with torchair.scope.super_kernel("s"):
            return x * 2

    with pytest.warns(
        UserWarning, match="super_kernel has no effect on this host in a"
    ):
        assert torch.equal(compiled(function, config)(X), X * 2)


@pytest.mark.checklist("T148")
@pytest.mark.parametrize(
    "variable", ["ASCEND_LAUNCH_BLOCKING", "HCCL_OP_EXPANSION_MODE"]
)
def test_variables_of_a_vendor(monkeypatch, variable) -> None:
    monkeypatch.setenv(variable, "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(compiled(lambda x: x * 2)(X), X * 2)


@pytest.mark.checklist("T148")
def test_formats_and_prefetches() -> None:
    def function(x):
        torch_npu.npu_prefetch(x, x + 1, 64)
        return x * 2

    assert torch.equal(compiled(function)(X), X * 2)
    assert torch.equal(torch_npu.npu_format_cast(X, 29), X)


def test_each_graph_has_its_own_options_of_the_process() -> None:
    """Two graphs may have different options: each graph depends on its own alone."""
    first, second = torchair.CompilerConfig(), torchair.CompilerConfig()
    first.ge_config.enable_single_stream = True

    def function(x):
        with torchair.scope.npu_stream_switch("1"):
            return x * 2

    assert torch.equal(compiled(lambda x: x + 1, first)(X), X + 1)
    assert torch.equal(compiled(function, second)(X), X * 2)
    with pytest.raises(Exception, match="enable_single_stream and"):
        compiled(function, first)(X)
