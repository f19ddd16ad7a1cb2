"""The artefact that PyTorch pickles: a compiled graph.

In the process that compiles, a SavedGraph is the function that AOTAutograd calls. Its
pickled form has no function: `post_compile`, which PyTorch calls after it has read one,
starts it anew. The form is sealed (see `seal`)."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch._inductor.output_code import OutputCode

from .. import _C
from ..config import Config
from ..describe.description import Description, InputSource
from ..errors import SavedGraphError
from ..packages.function import Call
from ..shapes.gears import Binding
from .program import Program, frozen_weights, portable
from .pytorch_graph import PytorchGraph, Startable
from .seal import seal, unseal
from .weights import ForEachModel

_C.use_torch()


class SavedGraph(OutputCode):
    """A function of the graph's arguments in one list, which `body` can start anew.

    The wrappers that Anabranch puts around a graph stay in the process that compiles. A
    loaded graph therefore converts the arguments `numbers`, positions with their
    dtypes, and refuses calls whose `written` arguments share memory with another one.
    """

    def __init__(
        self,
        body: Program | PytorchGraph,
        call: Call | None,
        numbers: dict[int, torch.dtype],
        written: list[int],
    ) -> None:
        super().__init__()
        self._set(body, numbers, written)
        self.call = call

    def _set(
        self,
        body: Program | PytorchGraph,
        numbers: dict[int, torch.dtype],
        written: list[int],
    ) -> None:
        # PyTorch's wrappers copy the attributes of the object, not those of its class.
        self._boxed_call = True
        self.body = body
        self.numbers = numbers
        self.written = written

    def __call__(self, inputs: Any) -> Any:
        assert self.call is not None
        return self.call(inputs)

    def start(self) -> Call:
        """Starts a graph that was loaded."""
        if self.call is None:
            self.call = self._guarded(self.body.start())
        return self.call

    def _guarded(self, call: Call) -> Call:
        if not self.numbers and not self.written:
            return call

        def guarded(arguments: list[Any]) -> Sequence[Any]:
            if self.written and _C.share_memory(arguments, self.written):
                raise SavedGraphError(
                    "an argument that the saved graph writes shares memory with another"
                    " one; pass a copy of one of them"
                )
            for position, dtype in self.numbers.items():
                arguments[position] = arguments[position].to(dtype)
            return call(arguments)

        return guarded

    # PyTorch's interface of an artefact

    def prepare_for_serialization(self) -> None:
        """Nothing: the pickled form leaves out what belongs to this process."""

    def post_compile(self, *_: Any, **__: Any) -> None:
        self.start()

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Nothing: no kernel is Triton's."""

    def __copy__(self) -> SavedGraph:
        """The artefact without the function, as PyTorch keeps it."""
        return SavedGraph(self.body, None, self.numbers, self.written)

    def __getstate__(self) -> dict[str, Any]:
        return seal(pickle.dumps((self.body, self.numbers, self.written)))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set(*pickle.loads(unseal(state)))
        self.call = None


class SavedPart(Startable):
    """A part of a graph that PyTorch runs."""

    def __init__(self, graph: SavedGraph) -> None:
        super().__init__()
        self.graph = graph

    def start(self) -> None:
        self.graph.start()

    def forward(self, *arguments: Any) -> Any:
        return self.graph(list(arguments))


def of_program(
    module: torch.fx.GraphModule,
    sources: Sequence[InputSource],
    described: Description,
    config: Config,
    bindings: Sequence[Binding],
    files: dict[str, bytes],
    call: Call,
) -> SavedGraph:
    """The artefact of a graph that was compiled: `call` runs it."""
    weights = frozen_weights(module, described)
    program = Program(portable(described), config, list(bindings), files, list(weights))
    if weights:
        models = ForEachModel(program.weights, program.for_weights)
        models.add(list(weights.values()), call)
        call = models
    return SavedGraph(program, call, _numbers(module, sources), _written(module))


def of_pytorch(
    module: torch.fx.GraphModule, sources: Sequence[InputSource], call: Call
) -> SavedGraph:
    """The artefact of a graph that PyTorch runs."""
    numbers = _numbers(module, sources)
    return SavedGraph(PytorchGraph(module), call, numbers, _written(module))


def _numbers(
    module: torch.fx.GraphModule, sources: Sequence[InputSource]
) -> dict[int, torch.dtype]:
    """Arguments that Dynamo passes in f64, and the trace has in another dtype."""
    placeholders = module.graph.find_nodes(op="placeholder")
    return {
        position: node.meta["val"].dtype
        for position, (node, source) in enumerate(zip(placeholders, sources))
        if source.number and node.meta["val"].dtype is not torch.float64
    }


def _written(module: torch.fx.GraphModule) -> list[int]:
    """The positions of the arguments that the graph writes to."""
    placeholders = module.graph.find_nodes(op="placeholder")
    written = {node for call in module.graph.nodes for node in _targets(call)}
    return [i for i, node in enumerate(placeholders) if node in written]


def _targets(node: torch.fx.Node) -> list[Any]:
    """The nodes that the call of an operator writes to."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    found: list[Any] = []
    schema = node.target._schema.arguments
    given = dict(zip((argument.name for argument in schema), node.args)) | node.kwargs
    for argument in schema:
        if argument.is_write:
            value = given.get(argument.name)
            found += value if isinstance(value, list | tuple) else [value]
    return found
