"""Two ways to call a package with arrays: the binding, and the C API through ctypes.

Both declare the same interface, give the same results, and refuse the same calls."""

from __future__ import annotations

import ctypes
import re
from ctypes import POINTER
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import anabranch
import anabranch_runtime
from anabranch_runtime import native

ROOT = Path(__file__).resolve().parents[3]
HEADER = re.sub(
    r"/\*.*?\*/|^#.*?$",
    "",
    (ROOT / "include/anabranch/anabranch.h").read_text(),
    flags=re.DOTALL | re.MULTILINE,
)
PLAIN = {
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "size_t": ctypes.c_size_t,
    "anabranch_allocate_fn": native._Allocate,
    **{f"anabranch_{name}": kind for name, kind in native.STRUCTURES.items()},
}
OPAQUE = ("void", "anabranch_status", "anabranch_executable")


def ctype(text: str) -> object:
    """The ctypes type of a C type."""
    base = " ".join(text.replace("*", " ").replace("const", " ").split())
    stars = text.count("*")
    if base == "char":
        assert stars == 1
        return ctypes.c_char_p
    if base in OPAQUE:
        if not stars:
            return None
        pointer, stars = ctypes.c_void_p, stars - 1
    else:
        pointer = PLAIN[base]
    return POINTER(pointer) if stars else pointer


def declared(text: str) -> tuple[str, object]:
    """Name and type of `const int64_t *shape`."""
    found = re.fullmatch(r"\s*(.*?)(\w+)\s*", text, re.DOTALL)
    assert found, text
    return found[2], ctype(found[1])


@pytest.mark.parametrize("name", native.STRUCTURES)
def test_structures_are_those_of_the_header(name) -> None:
    body = re.search(
        rf"typedef struct anabranch_{name} {{(.*?)}} anabranch_{name};",
        HEADER,
        re.DOTALL,
    )
    assert body
    fields = [declared(field) for field in body[1].split(";") if field.strip()]
    ours = native.STRUCTURES[name]._fields_
    names = [("data", ctypes.c_void_p) if n == "data" else (n, t) for n, t in fields]
    assert list(ours) == names


@pytest.mark.parametrize("name", native.FUNCTIONS)
def test_functions_are_those_of_the_header(name) -> None:
    found = re.search(
        rf"ANABRANCH_C_API\s+([\w\s]+?[\s*]*)anabranch_{name}\((.*?)\);",
        HEADER,
        re.DOTALL,
    )
    assert found, f"the header has no anabranch_{name}"
    arguments = [] if found[2].strip() == "void" else found[2].split(",")
    types = [ctype(found[1]), *(declared(argument)[1] for argument in arguments)]
    assert list(native.FUNCTIONS[name]) == types


def test_kinds_are_those_of_the_header() -> None:
    names = re.findall(r"ANABRANCH_OUTPUT_(\w+) = (\d+)", HEADER)
    assert [(kind.upper(), str(n)) for n, kind in enumerate(native._KINDS)] == names


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x, total):
        self.calls += 1
        total += x.sum(0)
        return {"y": self.linear(x), "x": x, "rows": x.shape[0], "calls": self.calls}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("two") / "p")
    rows = torch.export.Dim("rows", min=2, max=64)
    anabranch.export(
        Model().eval(),
        path,
        (torch.randn(5, 4), torch.zeros(4)),
        dynamic_shapes=({0: rows}, None),
    )
    return path


@pytest.fixture(params=["binding", "ctypes"])
def package(request, folder, monkeypatch):
    if request.param == "binding":
        return anabranch.load(folder)
    monkeypatch.setattr(native, "__file__", str(ROOT / "build" / "native.py"))
    return anabranch_runtime.load(folder)


def test_results(package, folder) -> None:
    x, total = np.random.randn(5, 4).astype("f4"), np.zeros(4, "f4")
    found = package(x, total)
    np.testing.assert_allclose(total, x.sum(0), rtol=1e-6)
    assert found["x"] is x and found["rows"] == 5 and found["calls"] == 1
    assert found["y"].shape == (5, 3) and found["y"].dtype == np.float32
    again = anabranch.load(folder)(torch.from_numpy(x), torch.zeros(4))
    np.testing.assert_array_equal(found["y"], again["y"].numpy())


def test_descriptions(folder, monkeypatch) -> None:
    ours = anabranch.load(folder)
    monkeypatch.setattr(native, "__file__", str(ROOT / "build" / "native.py"))
    theirs = anabranch_runtime.load(folder)
    assert ours.inputs == theirs.inputs
    shown = [{k: v for k, v in o.items() if k != "input"} for o in ours.outputs]
    assert shown == theirs.outputs
    assert ours.target == theirs.target


def read_only() -> np.ndarray:
    array = np.zeros(4, "f4")
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((np.zeros((5, 4)), np.zeros(4, "f4")), TypeError, "x"),
        ((np.zeros((5, 3), "f4"), np.zeros(4, "f4")), ValueError, "x"),
        ((np.zeros((1, 4), "f4"), np.zeros(4, "f4")), ValueError, "x"),
        (
            (np.zeros((5, 4), "f4"), read_only()),
            ValueError,
            "total is written in place",
        ),
        (
            (np.zeros((5, 4), "f4"), np.zeros(8, "f4")[::2]),
            ValueError,
            "total is written",
        ),
        (
            (np.zeros((5, 4), "f4"), [0.0]),
            TypeError,
            "total: expected an array, got list",
        ),
        ((np.zeros((5, 4), "f4"),), TypeError, "total"),
    ],
)
def test_refusals(package, arguments, error, text) -> None:
    with pytest.raises(error, match=text):
        package(*arguments)
    assert package.state["calls"] == 0
