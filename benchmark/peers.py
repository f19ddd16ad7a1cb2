"""Other engines that run a model on the CPU, as contenders of a case.

OpenVINO reads the graph of torch.export. ONNX Runtime reads the file that torch.onnx
writes of it. Both keep the weights as constants and may pack them. Each has the
settings that its makers advise for the latency of one call, and as many threads as
PyTorch. Tensors go in and out without a copy if the engine allows it.

An engine that is not installed raises `Absent`; `requirements/peers.txt` lists the
engines."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch


class Absent(Exception):
    """The engine is not installed."""


def load(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        raise Absent(f"not installed: {problem.name or module}") from problem


class Wrapped(torch.nn.Module):
    """A function as a module, for torch.export."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function
        # Functions are in this mode. Graphs of torch.export refuse eval().
        self.training = False

    def forward(self, *arguments: torch.Tensor) -> Any:
        return self.function(*arguments)


def exported(function: Callable, arguments: tuple) -> torch.export.ExportedProgram:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(Wrapped(function), arguments)


def survives(work: Callable[[], object]) -> bool:
    """Whether `work` ends well in a child process: a peer may crash on its own code. The
    child collects no garbage of its parent, whose engines would wait for threads that
    the child lacks."""
    child = os.fork()
    if child == 0:
        gc.disable()
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def openvino(function: Callable, arguments: tuple) -> Callable:
    engine = load("openvino")
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": precision(function, arguments),
    }
    program = exported(function, arguments)

    def compile_it() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = engine.convert_model(program)
        model.reshape({i: list(t.shape) for i, t in enumerate(arguments)})
        return engine.compile_model(model, "CPU", settings)

    if not survives(compile_it):
        raise RuntimeError("OpenVINO cannot compile it")
    request = compile_it().create_infer_request()

    def given(tensor: torch.Tensor) -> Any:
        if tensor.dtype != torch.bfloat16:
            return tensor.numpy()
        words = tensor.view(torch.int16).numpy()
        return engine.Tensor(words, list(tensor.shape), engine.Type.bf16)

    def taken(result: Any) -> torch.Tensor:
        # NumPy has no bf16: the engine calls its words f16.
        if result.element_type != engine.Type.bf16:
            return torch.from_numpy(result.data)
        return torch.from_numpy(result.data.view("int16")).view(torch.bfloat16)

    def call(*tensors: torch.Tensor) -> list[torch.Tensor]:
        request.infer([given(t) for t in tensors], share_inputs=True)
        return [taken(result) for result in request.output_tensors]

    return call


def onnxruntime(function: Callable, arguments: tuple) -> Callable:
    engine = load("onnxruntime")
    load("onnxscript")
    options = engine.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    options.graph_optimization_level = engine.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            exported(function, arguments), dynamo=True, verbose=False
        )
    assert program is not None
    session = engine.InferenceSession(
        program.model_proto.SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
    )
    names = [value.name for value in session.get_inputs()]

    def call(*tensors: torch.Tensor) -> list[torch.Tensor]:
        given = {
            name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)
        }
        return [torch.from_numpy(value) for value in session.run(None, given)]

    return call


def precision(function: Callable, arguments: tuple) -> str:
    """The dtype of OpenVINO's products. Its own choice would be bf16 for a model of
    f32, where a CPU is faster at that."""
    tensors = [*arguments]
    if isinstance(function, torch.nn.Module):
        tensors += [*function.parameters(), *function.buffers()]
    dtypes = {tensor.dtype for tensor in tensors}
    if torch.bfloat16 in dtypes:
        return "bf16"
    return "undefined" if torch.float16 in dtypes else "f32"


PEERS = {"openvino": openvino, "onnxruntime": onnxruntime}
