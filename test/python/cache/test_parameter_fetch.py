"""`parameter_fetch` removes a module's own tensors from the call in Dynamo's code."""

from __future__ import annotations

import dis

import pytest
import torch

from anabranch.capture import quiet_code
from anabranch.method_cache.save import parameter_fetch
from anabranch.method_cache.save.code_hook import translations
from anabranch.method_cache.save.guards import name_of
from anabranch.method_cache.source import Source, look_up


class Many(torch.nn.Module):
    """A module with parameters and buffers at several depths, a shared one, and a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))
        self.layers.append(self.layers[0])
        self.inner = torch.nn.ModuleDict({"norm": torch.nn.LayerNorm(4)})
        self.register_buffer("shift", torch.ones(4))
        self.kept = {"plain": torch.full((4,), 2.0)}

    def method(self, x, others):
        for layer in self.layers:
            x = layer(x)
        x = self.inner["norm"](x) + others["b"]
        return x * self.shift + self.kept["plain"], others["a"] - 1


class Changing(Many):
    """A module that sets attributes: its code continues after the call of the graph."""

    def method(self, x, others):
        self.inner.norm.seen = x + 1
        self.last, other = Many.method(self, x, others)
        return self.last, other + 1


def traced(module, *arguments):
    """Dynamo's code for a call of the method, the name of the graph in it, and the
    sources of the graph's arguments."""
    codes, sources = [], []

    def backend(graph, _):
        nodes = graph.graph.find_nodes(op="placeholder")
        sources[:] = [name_of(n.meta["grapharg"].source) for n in nodes]
        quiet_code.begin()
        return graph.forward

    with translations(lambda old, new: codes.append(new)):
        torch.compile(module.method, backend=backend, fullgraph=True)(*arguments)
    (name,) = (n for n in codes[-1].co_names if n.startswith("__compiled_fn"))
    return codes[-1], name, sources


def call(code, function, *arguments):
    return type(function)(code, function.__globals__)(*arguments)


def test_the_module_alone_is_passed_for_what_it_holds() -> None:
    module = Many()
    x, others = torch.randn(2, 4), {"a": torch.randn(4), "b": torch.randn(4)}
    function = Many.method
    code, name, sources = traced(module, x, others)
    places = [Source.parse(source, function).place for source in sources]
    found = {
        number: look_up(module, place.path)
        for number, place in enumerate(places)
        if place is not None and isinstance(look_up(module, place.path), torch.Tensor)
    }
    # Six of three layers, two of the norm, `shift` and `kept`.
    assert len(found) == 10
    shortened = parameter_fetch.shorten(code, name, "self", len(sources), found)
    assert shortened is not None
    assert not {"_parameters", "_buffers"} & set(map(str, instructions_of(shortened)))
    graph = function.__globals__[name]
    given = []

    def with_found(owner, *rest):
        given.append((owner, len(rest)))
        left = iter(rest)
        numbers = range(len(sources))
        return graph(*(found[n] if n in found else next(left) for n in numbers))

    expected = [value.clone() for value in call(code, function, module, x, others)]
    function.__globals__[name] = with_found
    try:
        results = call(shortened, function, module, x, others)
    finally:
        function.__globals__[name] = graph
    assert given == [(module, len(sources) - len(found))]
    torch.testing.assert_close(list(results), expected)


def instructions_of(code):
    return [each.argval for each in dis.get_instructions(code)]


@pytest.mark.parametrize("kind", [Many, Changing])
def test_any_argument_may_be_left_out(kind) -> None:
    """Temporaries stay if code after the call, or another argument, reads them."""
    module = kind()
    x, others = torch.randn(2, 4), {"a": torch.randn(4), "b": torch.randn(4)}
    code, name, sources = traced(module, x, others)
    function = kind.method
    graph = function.__globals__[name]
    expected = [value.clone() for value in call(code, function, module, x, others)]
    values: list[torch.Tensor] = []
    function.__globals__[name] = lambda *given: values.extend(given) or graph(*given)
    call(code, function, module, x, others)
    for number, value in enumerate(values):
        shortened = parameter_fetch.shorten(code, name, "self", len(sources), {number})
        assert shortened is not None
        function.__globals__[name] = lambda owner, *rest, n=number, v=value: graph(
            *rest[:n], v, *rest[n:]
        )
        results = call(shortened, function, module, x, others)
        torch.testing.assert_close(list(results), expected)
        if kind is Changing:
            torch.testing.assert_close(module.inner.norm.seen, x + 1)
            assert module.last is results[0]
    function.__globals__[name] = graph


def test_code_of_another_form_stays() -> None:
    def twice(self, x):
        return graph(x)[0] + graph(x)[0]  # noqa: F821

    def branches(self, x):
        return graph(x if self else -x)  # noqa: F821

    def unpacked(self, x):
        return graph(*x)  # noqa: F821

    def plain(self, x):
        return graph(x)  # noqa: F821

    for function in (twice, branches, unpacked):
        code = function.__code__
        assert parameter_fetch.shorten(code, "graph", "self", 1, {0}) is None
    assert parameter_fetch.shorten(plain.__code__, "graph", "self", 2, {0}) is None
    assert parameter_fetch.shorten(plain.__code__, "graph", "self", 1, {0})
