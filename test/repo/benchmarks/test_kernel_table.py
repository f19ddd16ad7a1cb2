"""`make bench-kernels`: limits of kernels, the table, and the list of slower kernels."""

import importlib.util
import sys
from pathlib import Path

import pytest

from repository import ROOT

sys.path.insert(0, str(ROOT / "benchmark"))
import compare
import record

PEAKS = {
    "threads": 1,
    "fma_f32": 100.0,
    "dot_bf16": 50.0,
    "dot_int8": 400.0,
    "tile_bf16": 0.0,
    "tile_int8": 0.0,
    "read_gbs": {"1000": 100.0, "1000000": 10.0},
}


@pytest.fixture(scope="module")
def limits():
    """The module of limits. Importing it needs the built package."""
    if importlib.util.find_spec("anabranch") is None:
        pytest.skip("anabranch is not installed")
    import limits

    return limits


def test_limit_is_the_larger_of_arithmetic_and_reading(limits) -> None:
    assert limits.bound(PEAKS, "f32", 1e11, 1, "ms").value == pytest.approx(1000)
    assert limits.bound(PEAKS, "bf16", 1e11, 1, "ms").value == pytest.approx(1000)
    assert limits.bound(PEAKS, "int8", 1e11, 1, "ms").value == pytest.approx(250)
    small, large = (limits.bound(PEAKS, "f32", 1, n, "us") for n in (1000, 1001))
    assert small.value == pytest.approx(0.01) and large.value == pytest.approx(0.1001)
    assert limits.bound(PEAKS, "f32", 1, 2e6, "us").value == pytest.approx(200)
    assert "MB at" in large.note


def test_the_better_of_two_measurements_counts(limits) -> None:
    other = PEAKS | {"fma_f32": 120.0, "read_gbs": {"1000": 90.0, "1000000": 11.0}}
    found = limits.best(PEAKS, other)
    assert found["fma_f32"] == 120 and found["tile_int8"] == 0
    assert found["read_gbs"] == {"1000": 100.0, "1000000": 11.0}


def test_every_kernel_says_what_it_needs(limits) -> None:
    from kernel_cases import KERNELS

    for name, kernel in KERNELS.items():
        assert kernel.what and kernel.size > 0 and kernel.flops >= 0, name
        assert limits.gflops(PEAKS, kernel.multiply) > 0
    for name in ("linear-512x768x3072-bf16", "int8-864x7168x4096", "softmax-f32"):
        assert name in KERNELS


def test_a_line_of_the_table(limits) -> None:
    import kernel_table

    rows = [
        record.Row("eager", 3.0, "ms"),
        record.Row("inductor", 2.0, "ms"),
        record.Row("openvino", error="no"),
        record.Row("exported", 1.0, "ms"),
        record.Row("bound", 0.5, "ms"),
    ]
    line = kernel_table.summary("k", rows)
    assert line == ["k", "1 ms", "2 ms", "inductor", "2.00", "0.5 ms", "0.50"]
    rows[3] = record.Row("exported", note=kernel_table.SKIPPED)
    assert kernel_table.summary("k", rows)[1] == "no kernel yet"


def recorded(machine: str, **values: float) -> dict:
    cases = {
        name: {
            "what": name,
            "rows": [
                {"contender": "eager", "value": 9.0, "unit": "ms"},
                {"contender": "exported", "value": value, "unit": "ms"},
                {"contender": "bound", "value": 1.0, "unit": "ms"},
            ],
        }
        for name, value in values.items()
    }
    return {"machine": {"cpu": machine}, "cases": cases}


def test_compare(capsys: pytest.CaptureFixture) -> None:
    old = recorded("a", x=2.0, y=2.0, gone=1.0)
    assert not compare.report(old, recorded("a", x=2.0, y=1.0, fresh=1.0))
    printed = capsys.readouterr().out
    assert "| fresh | | | | | new |" in printed and "not measured" in printed
    assert compare.report(old, recorded("a", x=2.2, y=2.0))
    assert "| x | exported | 2 ms | 2.2 ms | 1.10 | SLOWER |" in capsys.readouterr().out
    failing = recorded("a", x=2.0)
    failing["cases"]["x"]["rows"][1] = {"contender": "exported", "error": "no"}
    assert compare.report(old, failing)


def test_compare_on_another_machine(capsys: pytest.CaptureFixture) -> None:
    """On a machine that is twice as slow, the limit doubles too: nothing is slower."""
    old, new = recorded("a", x=2.0), recorded("b", x=4.0)
    new["cases"]["x"]["rows"][2]["value"] = 2.0
    assert not compare.report(old, new)
    assert "another machine" in capsys.readouterr().out
    new["cases"]["x"]["rows"][2]["value"] = 1.0
    assert compare.report(old, new)


def test_compare_as_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    record.write(recorded("a", x=1.0), old)
    record.write(recorded("a", x=2.0), new)
    monkeypatch.setattr(sys, "argv", ["compare.py", str(old), str(new)])
    assert compare.main() == 2
    new.write_text("{}")
    with pytest.raises(SystemExit, match="is no record"):
        compare.main()
