"""The scripts of the user guide's pages, unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import prototext

FOLDER = Path(__file__).resolve().parents[1] / "pages"
PAGES = sorted(FOLDER.glob("00[01]_*.txt"))  # streams
SHAPES = next(FOLDER.glob("002_*.txt"))
SUPER_KERNEL = next(FOLDER.glob("003_*.txt"))
STATIC = next(FOLDER.glob("004_*.txt"))

# Runs after a script, in its namespace: its results must be the eager model's.
CHECK = """
assert len(result) == 4
assert torch.equal(result[0], in1 + in2) and torch.equal(result[3], in3 + in4)
assert torch.equal(result[1], result[2])
torch.testing.assert_close(result[1], in3 @ in4, atol=0.1, rtol=1e-2)
import anabranch
assert anabranch.counters.graphs == 1 and anabranch.counters.eager_graphs == 0
print("checked")
"""


def script(page: Path) -> str:
    """The lines from the first import to the last line, or to the end of the block."""
    text = page.read_text(encoding="utf-8")
    found = re.search(
        r"^import torch, os\n.*?(?=^```|\Z)", text, re.DOTALL | re.MULTILINE
    )
    assert found, page
    return found[0]


def gears_script() -> str:
    """The first script of the page on shapes, which lacks its indentation. In a class,
    `def` begins a method, and the last `return` ends it."""
    text = SHAPES.read_text(encoding="utf-8")
    lines = text[text.index("import torch\n") : text.index("\n2. ")].splitlines()
    last = max(i for i, line in enumerate(lines) if line.startswith("return "))
    return indented(lines, last)


def indented(lines: list[str], last: int) -> str:
    """Indents a class; `last` is the number of its last line."""
    found, inside = [], False
    for i, line in enumerate(lines):
        depth = 4 if inside and line.startswith("def ") else 8 if inside else 0
        if i and lines[i - 1].startswith("if "):
            depth += 4
        found.append(" " * depth + line)
        inside = (inside or line.startswith("class ")) and i != last
    return "\n".join(found) + "\n"


def _caches() -> list[list[str]]:
    """The classes of the page's part on caches, the first one as it was before it was
    adapted, and their imports."""
    text = SHAPES.read_text(encoding="utf-8")
    text = text[text.index("\n3. ") :]
    starts = [match.start() for match in re.finditer("^class ", text, re.MULTILINE)]
    parts = [text[a:b] for a, b in zip(starts, [*starts[1:], None])]
    header = ["import torch, torch_npu, torchair"]
    found = []
    for part in parts:
        lines = part.splitlines()
        last = max(i for i, line in enumerate(lines) if line.startswith("return "))
        found.append(header + lines[: last + 1])
    return found


def cache_script() -> str:
    """The adapted model, with the page's two misprints corrected, and a call."""
    lines = _caches()[1]
    script = indented(lines, len(lines) - 1)
    script = script.replace("torchair.Inference.", "torchair.inference.")
    script = script.replace("self, xy, y", "self, x, y")
    return script + "print(Model()(torch.ones(2, 3).npu(), torch.ones(3).npu()))\n"


def prefill_script() -> str:
    """Two functions of a model, with text in place of the page's dots."""
    lines = _caches()[2]
    script = indented(lines, len(lines) - 1).replace("x, ...", "x, kv_cache")
    script = script.replace("return ...", "return x * 2 + kv_cache")
    script += "model, cache = Model(), torch.arange(4.0)\n"
    script += "for size in (5, 1, 7, 1):\n"
    return script + "    print(model(torch.ones(2, size, 4), cache))\n"


# Runs before a script that must find everything in the cache.
NO_COMPILER = """import torch

def compile(*_, **__):
    raise AssertionError("nothing was left to compile")

torch.compile = compile
"""


def super_kernel_script() -> str:
    """The script at the end of the page."""
    text = SUPER_KERNEL.read_text(encoding="utf-8")
    return text[text.index("# 导入TorchAir框架\n") :]


def static_script(folder: Path) -> str:
    """The script of the page on static kernels, its build folder put in place."""
    lines = STATIC.read_text(encoding="utf-8").splitlines()
    found = [line.strip() for line in lines]
    first = found.index("import torch_npu, torchair")
    last = next(i for i, line in enumerate(found) if line.startswith("opt_model = "))
    return "\n".join(found[first : last + 1]).replace("/path/test", str(folder)) + "\n"


def check_output(output: str) -> None:
    """Checks the output of a run at DEBUG: results, attributes, streams, events."""
    assert "Result:\n(tensor([[" in output
    assert "checked" in output
    for tag, kind in (("1", "MatMul"), ("2", "Add_1")):
        assert f"Set attribute _user_stream_label: {tag} on op: {kind}" in output
    for line in (
        "Event: mm at LINE on stream 1 waits for add at LINE on stream default",
        "Event: add at LINE on stream 2 waits for mm at LINE on stream 1",
        "Stream default of graph_1: add at LINE, mm at LINE",
        "Stream 1 of graph_1: mm at LINE",
        "Stream 2 of graph_1: add at LINE",
    ):
        assert re.search(
            rf"\b{line}$".replace("LINE", r"\S+:\d+"), output, re.MULTILINE
        )


NAME = re.compile(
    r"dynamo_(optimized|original)_graph_(\d+)_rank_(\d+)_pid_(\d+)_ts_(\d{20})\.pbtxt"
)


def check_dumps(folder: Path) -> None:
    """Checks that there are two files, both with the streams of the page."""
    names = sorted(path.name for path in folder.glob("dynamo_*"))
    matches = [NAME.fullmatch(name) for name in names]
    assert [match and match[1] for match in matches] == ["optimized", "original"]
    for name in names:
        nodes = prototext.graph_def((folder / name).read_text(encoding="utf-8"))
        first, second = (node for node in nodes if node["op"] == ["MatMul"])
        label = "_user_stream_label"
        assert prototext.attributes(first)[label] == {"s": ["1"]}
        assert label not in prototext.attributes(second)
        one, two = (node for node in nodes if node["op"] == ["Identity"])
        assert "^Add" in one["input"]
        assert f"^{first['name'][0]}" in two["input"]
        assert prototext.attributes(two)[label] == {"s": ["2"]}
