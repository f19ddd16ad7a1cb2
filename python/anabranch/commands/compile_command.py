"""`anabranch compile`: writes a package of a model, for this machine or for others."""

from __future__ import annotations

import argparse
import os
from typing import Any

from ..measure.subject import SubjectError, is_package, load_model


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "compile",
        help="writes a package of a model, for this machine or for others",
        description="Exports a model, which a function gives as for `anabranch bench`. "
        "The package runs without PyTorch, on the processors that --for names.",
    )
    parser.add_argument(
        "model", nargs="?", help="FILE.py, FILE.py:function or module:function"
    )
    parser.add_argument(
        "--for",
        dest="targets",
        nargs="+",
        default=["native"],
        metavar="TARGET",
        help="processors, such as x86-64-v3 or neoverse-v1; else this machine",
    )
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", help="else the model's name, .anb"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a package")
    parser.add_argument(
        "--tune", action="store_true", help="time the model's products on this machine"
    )


def run(given: argparse.Namespace) -> int:
    name, targets = _model_and_targets(given)
    if is_package(name):
        raise ValueError(f"{name} is a folder: a package is compiled already")
    model = load_model(name)
    import torch

    from ..config import Config
    from ..deploy.export import export

    if not isinstance(model.model, torch.nn.Module):
        raise SubjectError(
            f"{name}: the model must be an nn.Module, got {type(model.model).__name__}"
        )
    path = given.output or _name_of(name)
    export(
        model.model,
        path,
        model.positional or dict(model.named),
        targets=targets,
        config=Config(tune=given.tune),
        overwrite=given.overwrite,
    )
    print(path)
    return 0


def _model_and_targets(given: argparse.Namespace) -> tuple[str, list[str]]:
    """argparse gives --for all words that follow it, the model too where that comes last. A
    model has a colon or ends in .py, and no target does."""
    models = [word for word in given.targets if ":" in word or word.endswith(".py")]
    targets = [word for word in given.targets if word not in models]
    if given.model is not None:
        models.insert(0, given.model)
    if len(models) != 1:
        named = f"got {' and '.join(models)}" if models else "none is named"
        raise ValueError(
            f"compile takes one model, FILE.py or module:function; {named}"
        )
    if not targets:
        raise ValueError("--for names no target, such as x86-64-v3 or neoverse-v1")
    return models[0], targets


def _name_of(model: str) -> str:
    """A folder beside the caller, named as the file or the function."""
    place, _, function = model.rpartition(":")
    if function.endswith(".py"):
        place, function = function, ""
    stem = os.path.splitext(os.path.basename(place))[0]
    return f"{function or stem}.anb"
