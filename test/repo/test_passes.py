"""Every pass has a lit test of its name, or one whose RUN lines name the pass."""

import re

from repository import ROOT, tracked


def test_every_pass_has_a_lit_test() -> None:
    tests = tracked("test/**/*.mlir", "test/**/*.test")
    runs = "\n".join(
        line
        for test in tests
        for line in test.read_text().splitlines()
        if "RUN:" in line
    )
    passes = {
        name
        for path in tracked("src/**/*.cpp")
        for name in re.findall(
            r'(?:StringLiteral argument =|make\w*Pass(?:<[^(]*>)?\()\s*"anabranch-([a-z-]+)"',
            path.read_text(),
        )
    }
    assert len(passes) > 10, "the pattern no longer finds passes"
    named = {test.stem for test in tests}
    missing = {p for p in passes if p not in named and f"--anabranch-{p}" not in runs}
    assert not missing, f"no lit test for {sorted(missing)} under {ROOT / 'test'}"
