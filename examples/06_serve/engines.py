"""The same embedding on other engines, for comparison. Each runs on one thread."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import numpy
from embedding import Embedding, Texts

NAMES = ("anabranch", "eager", "openvino", "onnxruntime")


def available(name: str) -> bool:
    """Whether the engine is installed; requirements/peers.txt lists the peers."""
    needs = {"eager": "torch"}.get(name, name)
    return importlib.util.find_spec(needs) is not None


def prepare(name: str, folder: str) -> str:
    """Writes the model that `open_engine` opens below `folder`, if it is not there yet.
    Returns its path."""
    from embedding import export

    path = os.path.join(folder, "package" if name == "anabranch" else "model.onnx")
    if name == "anabranch" and not os.path.exists(path):
        export(path)
    if name in ("openvino", "onnxruntime") and not os.path.exists(path):
        _export_onnx(path)
    return path


def _export_onnx(path: str) -> None:
    import torch
    from torch_model import SentenceModel

    inputs = tuple(torch.ones(2, 32, dtype=torch.int64) for _ in range(2))
    sizes = {0: torch.export.Dim("rows"), 1: torch.export.Dim("tokens")}
    torch.onnx.export(
        SentenceModel(),
        inputs,
        path,
        input_names=["ids", "mask"],
        dynamic_shapes=(sizes, sizes),
        dynamo=True,
        verbose=False,
    )


def open_engine(name: str, path: str) -> Any:
    """A function of sentences on this engine. Its `run` takes ids and mask."""
    if name == "anabranch":
        made = Embedding(path)
        made.warm_up()
        return made
    return _Peer({"eager": _eager, "openvino": _openvino}.get(name, _onnxruntime)(path))


class _Peer:
    def __init__(self, run: Any) -> None:
        self.texts = Texts()
        self.run = run

    def __call__(self, sentences: list[str]) -> numpy.ndarray:
        return self.run(*self.texts(sentences))[: len(sentences)]


def _eager(path: str) -> Any:
    import torch
    from torch_model import SentenceModel

    torch.set_num_threads(1)
    model = SentenceModel()

    def run(ids: numpy.ndarray, mask: numpy.ndarray) -> numpy.ndarray:
        with torch.inference_mode():
            return model(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()

    return run


def _openvino(path: str) -> Any:
    import openvino

    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = (
        openvino.Core().compile_model(path, "CPU", settings).create_infer_request()
    )

    def run(ids: numpy.ndarray, mask: numpy.ndarray) -> numpy.ndarray:
        return request.infer([ids, mask])[0].copy()

    return run


def _onnxruntime(path: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )

    def run(ids: numpy.ndarray, mask: numpy.ndarray) -> numpy.ndarray:
        return session.run(None, {"ids": ids, "mask": mask})[0]

    return run
