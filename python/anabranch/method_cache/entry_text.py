"""Prints a cached method as text, to read it or to keep it beside its source."""

from __future__ import annotations

import dis
import io
import json
import os
from collections.abc import Mapping
from typing import Any

from .. import _C
from ..config import environment
from .recording import SavedCode, code_in


def readable_cache(
    cache_bin: str | os.PathLike[str], print_output: bool = True, file: Any = None
) -> str:
    """An entry as text: the method, its graph, inputs and options, and the code that
    calls the graph.

    cache_bin     the index of an entry, or its folder
    print_output  also prints the text
    file          a path that gets the text as a comment, followed by the graph's source

    Returns the text. ValueError: there is no cached method. PermissionError:
    other users can write to it.
    """
    path = os.fspath(cache_bin)
    saved = read_saved(path)
    kept = code_in(split(path)[0])
    text = describe(path, saved, kept)
    if print_output:
        print(text)
    if file is not None:
        write_private(os.fspath(file), text, saved["meta"]["graph"])
    return text


def read_saved(path: str) -> dict[str, Any]:
    """The recording of an entry. The hashes of all its files are checked."""
    if os.path.islink(path) or not os.path.exists(path):
        raise ValueError(f"{path} is no cached function: it is a link, or not there")
    folder, index = split(path)
    check_private(os.path.join(folder, index))
    text = _C.CacheEntry(folder, index).read()
    saved = json.loads(text or "{}")
    if "meta" not in saved:
        raise ValueError(f"{path} is no cached function")
    return saved


# Names of indexes. A front end may add its own.
index_names = ["entry.json"]


def split(path: str) -> tuple[str, str]:
    """The folder of an entry, and the name of its index."""
    if not os.path.isdir(path):
        return os.path.split(os.path.abspath(path))
    found = [name for name in index_names if os.path.exists(os.path.join(path, name))]
    if not found:
        raise ValueError(f"{path} is no cached function")
    return path, found[0]


def check_private(path: str) -> None:
    if environment().get("trust", "user") != "user":
        return  # The cache's own reader has checked the owner.
    info = os.lstat(path)
    if info.st_uid != os.geteuid() or info.st_mode & 0o7777 != 0o600:
        raise PermissionError(f"{path} must be the user's own, of mode 0600")


def describe(path: str, saved: Mapping[str, Any], kept: SavedCode) -> str:
    meta = saved["meta"]
    lines = [f"# Compiled function of {path}", ""]
    lines += [f"{key}: {meta[key]}" for key in ("name", "date", "torch", "python")]
    disassembly = io.StringIO()
    dis.dis(kept.code, file=disassembly)
    sections = {
        "graph module": meta["graph"].strip(),
        "inputs": "\n".join(input_lines(saved["calling"]["inputs"])),
        "compared at a call": "\n".join(compared_lines(saved, kept)),
        "compile options": "\n".join(
            f"{key} = {value}" for key, value in meta["options"].items()
        ),
        "caller frame": disassembly.getvalue().rstrip(),
    }
    for title, body in sections.items():
        lines += ["", f"## {title}", "", body]
    return "\n".join(lines) + "\n"


def input_lines(inputs: list[dict[str, Any]]) -> list[str]:
    found, given = [], 0
    for place, entry in enumerate(inputs):
        kind = entry.get("kind", "input")
        label = entry.get("label", entry["name"])
        if kind == "parameter":
            shape = f"{entry.get('dtype')}{entry.get('shape')}"
            found.append(f"{place}:{entry['name']} Parameter({label})={shape}")
        elif kind == "buffer":
            found.append(f"{place}:{entry['name']} Buffer({label})")
        else:
            found.append(f"{place}:{entry['name']} UserInput({given})")
            given += 1
    return found


def compared_lines(saved: Mapping[str, Any], kept: SavedCode) -> list[str]:
    """A line for each value that must be as in the trace for the entry to be used."""
    calling = saved["calling"]
    labels = {e["argument"]: e.get("label", e["name"]) for e in calling["inputs"]}
    lines = [f"{text} == {value!r}" for text, value in kept.constants]
    lines += [f"{text} is {name}" for text, name in kept.types]
    lines += [f"{text} is the same object at every call" for text in kept.identities]
    lines += [f"{text}, of sizes" for text, _, _ in calling["guards"]]
    lines += [
        f"{labels.get(number, number)} is frozen: its values have the hash {known[:16]}"
        for number, known in calling["constants"]
    ]
    lines += [f"{name} has the hash {known[:16]}" for name, known in _files(saved)]
    return lines or ["nothing but dtypes and sizes"]


def _files(saved: Mapping[str, Any]) -> list[tuple[str, str]]:
    return sorted(saved["sources"].items())


def write_private(path: str, text: str, source: str) -> None:
    if os.path.islink(path):
        raise ValueError(f"{path} is a link")
    comment = "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "w") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(f"{comment}\n{source}\n")
