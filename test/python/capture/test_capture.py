"""Models as graph descriptions, and what a capture costs."""

import json
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from anabranch import anabranch, backend, purity
from anabranch.capture import aot


def nodes(description):
    return {node["name"]: node for node in description.graph["nodes"]}


def ops(description):
    return [node["op"] for node in description.graph["nodes"]]


def test_inputs_say_what_they_are(describe):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 3)
            self.register_buffer("scale", torch.ones(3))

        def forward(self, x):
            return self.fc(x) * self.scale

    (found,) = describe(Model(), torch.randn(2, 4))
    kinds = {i["label"]: (i["kind"], i["shape"]) for i in found.graph["inputs"]}
    assert kinds == {
        "fc.weight": ("parameter", [3, 4]),
        "fc.bias": ("parameter", [3]),
        "scale": ("buffer", [3]),
        "x": ("input", [2, 4]),
    }
    json.dumps(found.graph)


def test_frozen_parameters_are_constants(describe):
    model = nn.Linear(4, 3)
    (found,) = describe(model, torch.randn(2, 4), options={"freeze": True})
    assert found.arguments == 3
    assert len(found.passed) == 1
    weights = [i for i in found.graph["inputs"] if i["label"] == "weight"]
    assert weights[0]["kind"] == "constant"
    assert torch.equal(found.constants[weights[0]["constant"]], model.weight)


def test_a_buffer_that_is_written_to_is_not_frozen(describe):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x):
            self.count.add_(x)
            return self.count * 2

    (found,) = describe(Model(), torch.randn(3), options={"freeze": True})
    assert not found.constants
    (mutation,) = found.graph["mutations"]
    (count,) = [i for i in found.graph["inputs"] if i["label"] == "count"]
    assert count["mutated"] and mutation["input"] == count["name"]


def test_operators_that_stay_whole(describe):
    def function(x, weight):
        x = F.linear(x, weight)
        x = F.scaled_dot_product_attention(x, x, x, is_causal=True, scale=0.5)
        return F.silu(F.rms_norm(F.layer_norm(F.gelu(x), (8,)), (8,)))

    (found,) = describe(function, torch.randn(2, 3, 5, 8), torch.randn(8, 8))
    assert ops(found) == [
        "aten.linear.default",
        "aten.scaled_dot_product_attention.default",
        "aten.gelu.default",
        "aten.native_layer_norm.default",
        "aten.rms_norm.default",
        "aten.silu.default",
    ]
    attention = nodes(found)["scaled_dot_product_attention"]["args"]
    assert attention["is_causal"] is True
    assert attention["scale"] == {"float": 0.5}
    assert attention["attn_mask"] is None
    assert attention["dropout_p"] == {"float": 0.0}


def test_symbols(describe):
    def function(x):
        return torch.cat([x, x]).view(-1), x.shape[0] * 3 + 1

    (found,) = describe(function, torch.randn(7, 4), dynamic=True)
    symbols = [symbol["name"] for symbol in found.graph["symbols"]]
    assert len(symbols) == 2
    hints = {symbol["hint"] for symbol in found.graph["symbols"]}
    assert hints == {7, 4}
    tensor, scalar = found.graph["outputs"]
    assert scalar["expr"][0] == "add"
    assert "strides" not in tensor


def test_arguments_have_their_defaults(describe):
    (found,) = describe(lambda x: x.topk(2), torch.randn(5))
    assert nodes(found)["topk"]["args"] == {
        "self": {"ref": "arg0_1"},
        "k": 2,
        "dim": -1,
        "largest": True,
        "sorted": True,
    }
    assert found.graph["outputs"] == [
        {"ref": "topk", "result": 0},
        {"ref": "topk", "result": 1},
    ]


def test_numbers_keep_their_kind(describe):
    def function(x):
        return (x * 2).clamp(float("-inf"), 1.0).masked_fill(x > 0, float("nan"))

    (found,) = describe(function, torch.randn(5))
    text = json.dumps(found.graph)
    assert '{"float": "-inf"}' in text and '{"float": "nan"}' in text
    assert '"other": 2}' in text and "1.0" in text


def test_lifted_constants(describe):
    (found,) = describe(lambda x: x + torch.tensor([1.0, 2.0]), torch.randn(2))
    (value,) = found.constants.values()
    assert value.tolist() == [1.0, 2.0]
    assert "aten.clone.default" in ops(found)


def test_strides_of_inputs_and_outputs(describe):
    (found,) = describe(lambda x: (x + 1).t(), torch.randn(4, 3).t())
    assert found.graph["inputs"][0]["strides"] == [1, 3]
    assert "strides" not in found.graph["outputs"][0]
    (found,) = describe(lambda x: x * 2, torch.randn(3, 1).expand(3, 4))
    assert found.graph["inputs"][0]["strides"] == [1, 0]


def test_symbolic_strides_ask_for_a_copy(describe):
    def function(x):
        return x * 2

    (found,) = describe(function, torch.randn(6, 5).t(), dynamic=True)
    assert len(found.copied) == 1
    position = found.copied[0]
    assert found.graph["inputs"][position]["label"] == "x"


def test_random_operators_keep_their_order(describe):
    (found,) = describe(lambda x: x + torch.rand(3), torch.randn(3))
    assert nodes(found)["rand"]["ordered"] is True


def test_locations_name_the_users_line(describe):
    def function(x):
        return nn.functional.softplus(x)

    (found,) = describe(function, torch.randn(3))
    where = found.graph["nodes"][0]["loc"]
    assert where["file"] == __file__
    assert where["function"] == "function"
    assert where["code"] == "return nn.functional.softplus(x)"


def test_annotations_are_kept(describe):
    def function(x):
        with torch.fx.traceback.annotate({"stream": "side"}):
            y = x.sin()
        return y + 1

    (found,) = describe(function, torch.randn(3))
    assert nodes(found)["sin"]["annotations"] == {"stream": "side"}
    assert "annotations" not in nodes(found)["add"]


class Counted:
    """Counts the traces of a model, with and without functionalization."""

    def __init__(self, monkeypatch):
        self.functional = []
        trace = aot.aot_module_simplified

        def counted(*arguments, disable_functionalization=False, **keywords):
            self.functional.append(not disable_functionalization)
            how = {"disable_functionalization": disable_functionalization}
            return trace(*arguments, **keywords, **how)

        monkeypatch.setattr(aot, "aot_module_simplified", counted)


def test_what_writes_nothing_is_traced_as_it_is(describe, monkeypatch):
    counted = Counted(monkeypatch)

    def model(x, mask):
        x = F.layer_norm(x, (4,)).masked_fill(mask & mask, 0.0)
        return F.gelu(x.transpose(0, 1)).contiguous(), x[1:]

    x, mask = torch.randn(3, 4), torch.ones(3, 4, dtype=torch.bool)
    with torch.no_grad():
        (plain,) = describe(model, x, mask)
    assert counted.functional == [False]
    monkeypatch.setattr(purity, "may_write", lambda *_: True)
    torch.compiler.reset()
    with torch.no_grad():
        (functional,) = describe(model, x, mask)
    assert counted.functional == [False, True]
    assert ops(plain) == ops(functional)


def test_what_looks_like_a_write_is_made_functional_at_once(describe, monkeypatch):
    counted = Counted(monkeypatch)
    for model in (
        lambda x: (x + 1).mul_(2),
        lambda x: F.relu(x + 1, inplace=True),
        lambda x: torch.add(x, 1, out=torch.empty(3)),
    ):
        torch.compiler.reset()
        (found,) = describe(model, torch.randn(3))
        assert not any(op.endswith(("_.Tensor", ".out")) for op in ops(found))
    assert counted.functional == [True, True, True]


def test_a_write_that_only_the_trace_shows(describe, monkeypatch):
    counted = Counted(monkeypatch)

    def model(x, mean, var):
        return F.batch_norm(x, mean, var, training=True)

    with torch.no_grad():
        (found,) = describe(model, torch.randn(4, 3), torch.zeros(3), torch.ones(3))
    assert counted.functional == [False, True]
    assert len(found.graph["mutations"]) == 2


def test_an_error_of_the_compiler_is_not_tried_again(monkeypatch):
    counted = Counted(monkeypatch)
    tried = []

    def refuse(*_, **__):
        tried.append(1)
        raise RuntimeError("no")

    monkeypatch.setattr(backend, "compile_graph", refuse)
    with pytest.raises(Exception, match="no"):
        torch.compile(lambda x: x + 1, backend=anabranch)(torch.randn(3))
    assert tried == [1]
    assert counted.functional == [False]


def test_training_describes_both_graphs(describe):
    model = nn.Linear(4, 3)
    x = torch.randn(2, 4, requires_grad=True)
    found = describe(lambda x: model(x).relu(), x, grad=True)
    assert len(found) >= 1 and not any(isinstance(f, str) for f in found)


@pytest.mark.parametrize("causal", [False, True])
def test_the_gradients_of_attention(causal):
    def attend(*operands):
        return F.scaled_dot_product_attention(*operands, is_causal=causal)

    torch.manual_seed(0)
    operands = [torch.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3)]
    found, expected = (
        torch.autograd.grad(run(*operands).sin().sum(), operands)
        for run in (torch.compile(attend, backend=anabranch), attend)
    )
    torch.testing.assert_close(found, expected)


def test_graphs_without_a_description(describe):
    (reason,) = describe(lambda x: x + 1, torch.empty(3, device="meta"))
    assert "meta" in reason


def test_sizes_that_depend_on_values(describe):
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        (described,) = describe(lambda x: x.nonzero() + 1, torch.tensor([0, 1, 1]))
        (number,) = describe(lambda x: x.nonzero().shape[0], torch.tensor([0, 1, 1]))
        wide = lambda x: x.nonzero().expand(-1, 3)
        (reason,) = describe(wide, torch.tensor([0, 1, 1]))
    assert len(described.graph["regions"]) == 1
    assert not isinstance(number, str)
    assert "depends on the values" in reason


def frames_of(call) -> set[str]:
    """The names of the Python functions that a call runs."""
    names: set[str] = set()

    def note(frame, event, _):
        if event == "call":
            names.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return names


@pytest.mark.parametrize(
    ("function", "direct"),
    [
        (lambda x: x + 1, True),
        (lambda x: (x * 2, x.sum()), True),
        (lambda x: x.t(), False),  # an output that is a view of an input
        (lambda x: (x, x + 1), True),  # Dynamo returns x itself, without the graph
        (lambda x: x.add_(1), False),  # so is an argument that it writes and returns
        (lambda x: (x * 2).add_(x).relu_(), True),
        (lambda x: x.add_(1).sum(), True),
        (lambda x: (x.t()[0].mul_(2), x.sum())[1], True),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_calls_go_around_the_wrapper_of_autograd_when_it_does_nothing(
    function, direct, dynamic
):
    with torch.no_grad():
        compiled = torch.compile(function, backend=anabranch, dynamic=dynamic)
        x = torch.randn(3, 4)
        compiled(x.clone())
        y, z = x.clone(), x.clone()
        names = frames_of(lambda: compiled(y))
        assert ("runtime_wrapper" not in names) == direct
        function(z)
        torch.testing.assert_close(y, z)
        assert (y.shape, y.stride()) == (z.shape, z.stride())
        assert (y._version > 0) == (z._version > 0)
        expected = function(x.clone())
        torch.testing.assert_close(compiled(x.clone()), expected)


class Residual(torch.nn.Module):
    """It writes to its own intermediate results, and counts its calls if it is asked."""

    def __init__(self, counts: bool) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(()) if counts else None)

    def forward(self, x):
        y = self.first(x).relu_()
        y += x
        y = self.second(y)
        y += x
        if self.calls is not None:
            self.calls.add_(1)
        return y.clamp_(min=-3)


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("freeze", [False, True])
def test_a_model_that_writes_what_it_computed_is_called_straight(freeze, counts):
    model = Residual(counts).eval()
    compiled = torch.compile(model, backend=anabranch, options={"freeze": freeze})
    x = torch.randn(3, 4)

    def check():
        got = compiled(x)
        torch.testing.assert_close(got, model(x))
        return got

    with torch.no_grad():
        check()
        assert "runtime_wrapper" not in frames_of(check)
        model.first.weight.mul_(2)
        changed = check()
        model.first.weight.data = torch.randn(4, 4)
        assert not torch.equal(check(), changed)
        model.second = torch.nn.Linear(4, 4)
        check()
        model.second.bias = torch.nn.Parameter(torch.ones(4))
        check()
    if counts:
        assert model.calls == 12
    model.requires_grad_(False)
    check()


@pytest.mark.parametrize("shares", [False, True])
def test_arguments_of_a_frozen_graph_that_writes_may_share_memory(shares):
    linear = torch.nn.Linear(4, 4)

    def function(x, y):
        result = linear(y)
        x.add_(1)
        return result + y

    compiled = torch.compile(function, backend=anabranch, options={"freeze": True})
    with torch.no_grad():
        for same in (shares, not shares, shares):
            ours, theirs = torch.randn(2, 5, 4)
            theirs.copy_(ours)
            other = torch.ones(5, 4)
            got = compiled(ours, ours.view(5, 4) if same else other)
            want = function(theirs, theirs.view(5, 4) if same else other)
            torch.testing.assert_close(got, want)
            torch.testing.assert_close(ours, theirs)


def test_a_call_under_autocast_keeps_the_wrapper():
    linear = torch.nn.Linear(4, 4)
    compiled = torch.compile(linear, backend=anabranch)
    x = torch.randn(3, 4)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = linear(x)
        compiled(x)
        assert "runtime_wrapper" in frames_of(lambda: compiled(x))
        torch.testing.assert_close(compiled(x), expected)
