"""The runner of op-plugin's own tests says of each how it ends."""

from __future__ import annotations

import pytest

import missing_operators
import operator_tests
from operator_tests import kind_of, table
from public_tests import Outcome, run

FILE = """
import torch
import torch_npu
from torch_npu.testing.common_distributed import skipIfUnsupportMultiNPU
from torch_npu.testing.common_utils import SkipIfNotGteCANNVersion, create_dtype_tensor
from torch_npu.testing.common_utils import get_npu_device
from torch_npu.testing.decorator import Dtypes, instantiate_tests
from torch_npu.testing.testcase import TestCase, run_tests


@instantiate_tests
class Case(TestCase):
    @SkipIfNotGteCANNVersion("9.0.0")
    @Dtypes(torch.float32, torch.int32)
    def test_of(self, dtype):
        one, other = create_dtype_tensor((3, 4), dtype, no_zero=True)
        assert other.to(get_npu_device()).dtype == one.dtype == dtype and (one != 0).all()

    def test_trains(self):
        torch_npu.npu_rms_norm_backward(torch.ones(2))

    @skipIfUnsupportMultiNPU(100_000)
    def test_of_ranks(self):
        raise AssertionError

    @skipIfUnsupportMultiNPU(1)
    def test_own_fault(self):
        missing()

    def test_wrong(self):
        self.assertRtolEqual(torch.ones(2), torch.zeros(2))

    def test_text(self):
        with self.assertRaisesRegex(RuntimeError, "another sentence"):
            torch_npu.npu_silu(torch.ones(2, dtype=torch.int32))
"""
ENDS = {
    "of_float32": "passed",
    "of_int32": "passed",
    "of_ranks": "hardware",
    "own_fault": "their own",
    "text": "texts",
    "trains": "training",
    "wrong": "wrong",
}


def test_how_tests_end(tmp_path) -> None:
    path = tmp_path / "test_written.py"
    path.write_text(FILE)
    found = run(path, "written.py", operator_tests.start)
    assert {one.test.rpartition("test_")[2]: kind_of(one) for one in found} == ENDS
    page = table(found, 3)
    counts = "2 passed, 1 wrong, 1 texts, 0 slow, 1 training, 1 hardware, 1 their own"
    assert f"1 of the 3 files were run.\nOf 7 tests: {counts}" in page
    assert "| `written.py` | 2 | 1 | 1 | 0 | 1 | 1 | 1 | 0 |" in page
    assert "`test_wrong`" in page and str(tmp_path) not in page


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("ModuleNotFoundError: No module named 'einops'", "their own"),
        ("ModuleNotFoundError: No module named 'torch_npu.other'", "wrong"),
        ("NotImplementedError: sgmv_shrink is not on this host", "hardware"),
        ("TimeoutError: it takes more than 60 s", "slow"),
        ('NotImplementedError: "normal_kernel_cpu" not implemented', "their own"),
        ("AttributeError: torch_npu has no attribute 'float4_e1m2'", "their own"),
        ("AttributeError: torch_npu has no attribute 'float4_e2m1'", "wrong"),
        ("IndexError: index 16 is out of bounds for dimension 0 with size 16", "wrong"),
    ],
)
def test_kinds(reason, kind) -> None:
    assert kind_of(Outcome("file.py", "test", "failed", reason)) == kind


def test_faults_of_one_file() -> None:
    """The same error of another file may be ours."""
    reason = "IndexError: index 16 is out of bounds for dimension 0 with size 16"
    file = "test_npu_scatter_pa_cache.py"
    assert kind_of(Outcome(file, "test", "failed", reason)) == "their own"
    ended = Outcome("f.py", "test", "failed", "FileNotFoundError", "rebuild_storage_fd")
    assert kind_of(ended) == "their own"


def test_names_of_the_custom_section() -> None:
    text = (
        "official:\n  - func: abs(Tensor self) -> Tensor\ncustom:\n"
        "  - func: npu_a(Tensor self) -> Tensor\n    exposed: all\n"
        "  - func: npu_a.out(Tensor self) -> Tensor\n"
        "  - func: _npu_b_(Tensor self) -> ()\nquant:\n  - func: c(Tensor self) -> Tensor\n"
    )
    assert missing_operators.names(text) == ["npu_a", "_npu_b_"]
