"""The core has no word of a front end: neither in names, nor in texts or comments."""

import re
from collections.abc import Iterator

import pytest

from repository import ROOT, text, tracked

CORE = ("python/anabranch/**", "python/bindings/**", "src/**", "include/**")
SUFFIXES = (".py", ".pyi", ".cpp", ".h", ".td", ".fbs")
# Words of TorchAir and of the devices that it is for, as parts of names too.
WORDS = {
    *("npu", "npugraph", "ascend", "acl", "aclgraph", "aclnn"),
    *("cann", "hccl", "gecache"),
}
# Names and phrases. `GE` is the graph engine, while `ge` is an operator of ATen's.
PHRASES = re.compile(
    r"(?i:torchair)|\b(?:global|tp|pp)_rank|\bGE\b|\bas the reference (?:has|does)\b"
)
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# For each file, the words that it may have, and why.
ALLOWED: dict[str, dict[str, str]] = {}


def foreign(line: str) -> Iterator[str]:
    """The words of a front end in a line."""
    yield from (word for word in PARTS.findall(line) if word.lower() in WORDS)
    yield from PHRASES.findall(line)


def test_the_core_has_no_word_of_a_front_end() -> None:
    problems = [
        f"{name}:{number}: {word}"
        for path in tracked(*CORE)
        if path.suffix in SUFFIXES
        for name in [str(path.relative_to(ROOT))]
        for number, line in enumerate(text(path).splitlines(), 1)
        for word in foreign(line)
        if word not in ALLOWED.get(name, {})
    ]
    assert not problems, "\n".join(problems)


def test_allowed_words_are_there() -> None:
    for name, words in ALLOWED.items():
        found = set(foreign(text(ROOT / name)))
        assert set(words) <= found, f"{name} no longer needs {set(words) - found}"


@pytest.mark.parametrize(
    "line",
    [
        "tp_rank: int | None = None",
        'f"world{size}global_rank{rank}"',
        "# what TorchAir does",
        "class NpuTensor:",
        "torch.ops.npu.npu_format_cast",
        "def run_on_npu():",
        "// an operator of GE",
        "raise ValueError(text)  # as the reference has it",
    ],
)
def test_words_are_seen(line: str) -> None:
    assert list(foreign(line))


@pytest.mark.parametrize(
    "line",
    ["in ascending order", 'addComparison(table, "ge", x)', "the reference count"],
)
def test_other_words_are_not(line: str) -> None:
    assert not list(foreign(line))
