"""benchmark/results.py makes the pages of figures from the kept figures."""

import json
import sys
from pathlib import Path

import pytest

from repository import ROOT

sys.path.insert(0, str(ROOT / "benchmark"))
import results


def test_pages_equal_the_figures() -> None:
    assert not results.check(), "run benchmark/results.py pages"


@pytest.mark.parametrize("path", sorted(results.RESULTS.glob("*.json")), ids=str)
def test_figures_name_machine_and_run(path: Path) -> None:
    kept = json.loads(path.read_text())
    assert path.stem == results.machine_name(kept["machine"])
    for case in kept["cases"].values():
        assert {"torch", "python", "threads", "source"} <= set(
            kept["runs"][case["run"]]
        )
        assert results.rows_of(case)


def test_a_run_replaces_its_cases_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run of one machine replaces the figures of its one case."""
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    about = {"torch": "2", "python": "3", "threads": 2, "source": "test"}
    for date, cases in (("2026-01-01", "ab"), ("2026-01-02", "b")):
        rows = [
            {"contender": "eager", "value": 1500.0, "unit": "us"},
            {
                "contender": "inductor",
                "error": "no /tmp/a/b.so at http" + "s://x.y/z/q 1/2",
            },
        ]
        path = results.keep(
            {
                "machine": {"cpu": "A (R)", "cpus": 2, "capability": "AVX2"},
                "run": {"date": date, **about},
                "cases": {name: {"what": name, "rows": rows} for name in cases},
            }
        )
    assert path.name == "a-r-2-cpus-avx2.json"
    kept = json.loads(path.read_text())
    assert {name: case["run"] for name, case in kept["cases"].items()} == {
        "a": "2026-01-01",
        "b": "2026-01-02",
    }
    assert "| `b` | b | 2026-01-02 | 1,500 us | failed |" in results.page(kept)
    assert kept["cases"]["b"]["rows"][1]["error"] == "no b.so at q 1/2"
