"""benchmark/results.py makes the pages of figures from the kept figures."""

import json
import sys
from pathlib import Path

import pytest

from repository import ROOT

sys.path[:0] = [str(ROOT / "benchmark"), str(ROOT / "benchmark" / "language")]
import vllm_serving

import results


def test_pages_equal_the_figures() -> None:
    assert not results.check(), "run benchmark/results.py pages"


@pytest.mark.parametrize("path", results.records(), ids=str)
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


def test_the_claim_is_a_range_over_all_machines_and_peers() -> None:
    """It counts the slowest case on the slowest machine, against the fastest peer."""

    def machine(own: float, **peers: float) -> dict:
        times = {"anabranch": own / 9, "anabranch frozen": own, **peers}
        rows = [{"contender": who, "value": time} for who, time in times.items()]
        failed = {"contender": "onnxruntime", "error": "not there"}
        return {"cases": {"minilm-1": {"rows": [*rows, failed]}}}

    found = [machine(5, eager=10, inductor=8), machine(6, eager=8, openvino=4)]
    assert results.ratios(found) == {
        "eager": [0.5, 0.75],
        "inductor": [0.625],
        "best": [0.625, 1.5],
    }
    text = results.claim(found)
    assert "0.50 to 0.75 of" in text and "0.62 to 1.50 of that of the fastest" in text
    assert all(len(line) <= 110 for line in text.splitlines())


def test_a_page_of_rates_compares_with_the_peer_s_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    whole = {
        "Anabranch": 50.0,
        "Anabranch, bytes": 60.0,
        "Anabranch, bytes, bf16": 90.0,
        "llama.cpp": 40.0,
        "OpenVINO": 120.0,
    }
    floats = {"Anabranch": 30.0, "llama.cpp": 20.0, "OpenVINO": 0.0}
    cases = {
        name: {
            "what": name,
            "rows": [
                {"contender": who, "value": value, "unit": "tokens/s"}
                if value
                else {"contender": who, "error": "cannot"}
                for who, value in rates.items()
            ],
        }
        for name, rates in (("few", whole), ("many", floats))
    }
    path = results.keep(
        {
            "machine": {"cpu": "A", "cpus": 2, "capability": "AVX2"},
            "page": results.RATES,
            "run": {"date": "2026-01-01", "torch": "2", "python": "3", "threads": 2}
            | {"source": "test"},
            "cases": cases,
        }
    )
    assert path.parent == tmp_path / results.RATES
    text = results.page(json.loads(path.read_text()), rates=True)
    assert "Larger is better" in text and "Smaller" not in text
    assert "| few | 2026-01-01 | 50 tokens/s |" in text
    assert text.count("| 1.50 | 0.75 |") == 1
    assert "| failed | 1.50 |  |" in text


def test_names_of_machines_tell_cores_apart() -> None:
    about = {"cpu": "AMD EPYC", "cpus": 2, "capability": "AVX512"}
    names = {results.machine_name(about | {"core": f"znver{n}"}) for n in (4, 5)}
    assert names == {"amd-epyc-znver4-2-cpus-avx512", "amd-epyc-znver5-2-cpus-avx512"}


def test_the_page_of_vllm_has_the_table_of_its_record() -> None:
    folder = ROOT / "benchmark" / "results" / "vllm"
    (record,) = folder.glob("*.json")
    page = (folder / "README.md").read_text()
    assert record.name in page
    assert vllm_serving.table(json.loads(record.read_text())) in page


def test_the_table_of_vllm_compares_medians() -> None:
    start = {"cpu": 2.0, "mib": 5, "seconds": 3.0}
    rounds = [
        {"seat": seat, "requests": 4, "seconds": seconds, "mib": 7}
        for seat, seconds in (("anabranch", 1.0), ("anabranch", 2.0), ("default", 3.0))
    ]
    starts = {"anabranch": [start, start], "default": [start, start]}
    *_, own, theirs, ratio = vllm_serving.table(
        {"rounds": rounds, "starts": starts}
    ).splitlines()
    assert own.startswith("| anabranch | 171 | 2.0 | 2.0 | 7 |")
    assert theirs.startswith("| default | 85 |")
    assert ratio.startswith("| anabranch over default | 2.00x |")
