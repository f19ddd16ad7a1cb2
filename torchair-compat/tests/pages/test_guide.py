"""The scripts of the user guide run unchanged."""

import pytest

import guide
from programs import run_script


def test_both_pages_are_here() -> None:
    assert [page.name[:3] for page in guide.PAGES] == ["000", "001"]


@pytest.mark.checklist("T043")
@pytest.mark.parametrize("page", guide.PAGES, ids=lambda page: page.name[:3])
def test_script_runs_as_written(page, tmp_path) -> None:
    done = run_script(tmp_path, guide.script(page) + guide.CHECK)
    assert not done.stderr
    guide.check_output(done.stdout)
    guide.check_dumps(tmp_path)


@pytest.mark.checklist("T099")
@pytest.mark.slow
def test_the_page_of_super_kernels_gives_the_same_twice(tmp_path) -> None:
    """864 x 7168 x 4096 in int8: the bits are the same with the scope and without."""
    done = run_script(tmp_path, guide.super_kernel_script())
    assert done.stdout.splitlines()[-1] == "Precision ====== Success!!!"
    assert len(list(tmp_path.glob("dynamo_optimized_graph_*.pbtxt"))) == 2
