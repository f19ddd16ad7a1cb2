"""get_npu_backend and get_compiler: their arguments, and results of their graphs."""

import functools
import logging
import re
import warnings

import pytest
import torch
from torch import nn
from torch._functorch.aot_autograd import aot_module_simplified

import anabranch
import torchair


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 16)

    def forward(self, x):
        return torch.relu(self.linear(x)) + 1


def compiled(function, config=None, **settings):
    backend = torchair.get_npu_backend(compiler_config=config)
    return torch.compile(function, backend=backend, fullgraph=True, **settings)


@torch.no_grad()
def check(function, *inputs, config=None, **settings) -> None:
    found = compiled(function, config, **settings)(*inputs)
    torch.testing.assert_close(found, function(*inputs))


@pytest.mark.checklist("T002")
def test_partial_keeps_the_config(config) -> None:
    backend = torchair.get_npu_backend(compiler_config=config)
    assert isinstance(backend, functools.partial)
    assert backend.keywords["compiler_config"] is config
    default = torchair.get_npu_backend().keywords["compiler_config"]
    assert default == torchair.CompilerConfig()


def test_arguments_are_checked(config) -> None:
    with pytest.raises(TypeError):
        torchair.get_npu_backend(config)
    with pytest.raises(TypeError, match="must be a CompilerConfig"):
        torchair.get_npu_backend(compiler_config={"mode": "max-autotune"})
    with pytest.raises(TypeError, match="must be a CompilerConfig"):
        torchair.get_compiler("max-autotune")


@pytest.mark.checklist("T020")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead", "npugraph_ex"])
@pytest.mark.parametrize("dynamic", [False, True, None])
def test_model(config, mode, dynamic) -> None:
    config.mode = mode
    check(Model().eval(), torch.randn(4, 8), config=config, dynamic=dynamic)
    assert anabranch.counters.kernels > 0


def test_backend_by_name() -> None:
    model = Model().eval()
    x = torch.randn(4, 8)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="npu")(x), model(x))


@pytest.mark.checklist("T020", "T024")
def test_new_sizes_run_without_recompilation() -> None:
    function = compiled(lambda x: x * 2 + x.shape[0], dynamic=True)
    for rows in (3, 4, 5):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(function(x), x * 2 + rows)
    assert anabranch.counters.graphs == 1


@pytest.mark.checklist("T029")
def test_training() -> None:
    model = Model()
    x = torch.randn(4, 8)
    compiled(model)(x).sum().backward()
    found = model.linear.weight.grad.clone()
    model.zero_grad()
    model(x).sum().backward()
    torch.testing.assert_close(found, model.linear.weight.grad)


def test_inputs_are_written_in_place() -> None:
    x = torch.ones(4)
    compiled(lambda t: t.add_(1) * 2)(x)
    assert torch.equal(x, torch.full((4,), 2.0))


def test_frozen_parameters_are_constants(config) -> None:
    config.experimental_config.frozen_parameter = True
    model = Model().eval()
    check(model, torch.randn(4, 8), config=config)


def test_custom_decompositions() -> None:
    def wrong(x):
        return torch.ones_like(x) * 7

    backend = torchair.get_npu_backend(
        custom_decompositions={torch.ops.aten.erf.default: wrong}
    )
    found = torch.compile(torch.erf, backend=backend)(torch.zeros(3))
    assert torch.equal(found, torch.full((3,), 7.0))


def test_options_are_written_into_the_config(config) -> None:
    options = {"frozen_parameter": True}
    backend = torchair.get_npu_backend(compiler_config=config)
    torch.compile(Model().eval(), backend=backend, options=options)(torch.randn(2, 8))
    assert config.experimental_config.frozen_parameter.value == "1"
    with pytest.raises(Exception, match=r"Invalid option 'speed'(.|\n)*ERR03005"):
        torch.compile(Model(), backend=backend, options={"speed": 1})(torch.randn(2, 8))


@pytest.mark.checklist("T129")
def test_custom_passes_edit_the_graph(config, debug, capsys) -> None:
    order = []

    def double(module, inputs, given) -> str:
        order.append("pre")
        assert given is config
        assert len(inputs) == 1
        for node in module.graph.nodes:
            if node.target is torch.ops.aten.add.Tensor:
                node.target = torch.ops.aten.mul.Tensor
        return "ignored"

    config.post_grad_custom_pre_pass = double
    config.post_grad_custom_post_pass = lambda *_: order.append("post")
    x = torch.randn(3)
    assert torch.equal(compiled(lambda t: t + 5, config)(x), x * 5)
    assert order == ["pre", "post"]
    log = capsys.readouterr().out
    assert "before [post_grad_custom_pre_pass] execution, graph is" in log


def test_failing_pass_says_so(config) -> None:
    def fail(*_) -> None:
        raise KeyError("no such node")

    config.post_grad_custom_pre_pass = fail
    with pytest.raises(Exception, match="no such node"):
        compiled(lambda t: t + 5, config)(torch.randn(3))
    config.post_grad_custom_pre_pass = None
    check(lambda t: t + 5, torch.randn(3), config=config)


@pytest.mark.checklist("T137")
def test_run_eagerly(config) -> None:
    config.debug.run_eagerly = True
    with pytest.warns(UserWarning, match="the graph FALLS BACK to EAGER execution"):
        check(Model().eval(), torch.randn(4, 8), config=config)
    assert anabranch.counters.kernels == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(Model().eval(), torch.randn(4, 8), config=config)


def test_log_of_a_compilation(config, debug, capsys) -> None:
    check(Model().eval(), torch.randn(4, 8), config=config)
    log = capsys.readouterr().out
    number = re.search(r"Compiling concrete graph (\d+) with options:", log)
    assert number
    assert "    ge.topoSortingMode = 1" in log
    run = r"torchair run at .*, process input: \d+us, compile \d+us, graph run: \d+us"
    assert len(re.findall(run, log)) == 1
    torchair.logger.setLevel(logging.ERROR)
    torch._dynamo.reset()
    check(Model().eval(), torch.randn(4, 8), config=config)
    assert not capsys.readouterr().out


def test_compiler_of_aten_graphs() -> None:
    model = Model().eval()
    x = torch.randn(4, 8)

    def backend(module, inputs):
        compiler = torchair.get_compiler()
        return aot_module_simplified(module, inputs, fw_compiler=compiler)

    with torch.no_grad():
        found = torch.compile(model, backend=backend)(x)
    torch.testing.assert_close(found, model(x))
    assert anabranch.counters.kernels > 0


def test_compiler_of_a_plain_graph() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    x, y = torch.randn(4), torch.randn(4)
    module = make_fx(lambda a, b: [a + b, a * b])(x, y)
    found = torchair.get_compiler()(module, [x, y])(x, y)
    torch.testing.assert_close(list(found), [x + y, x * y])
    assert anabranch.counters.kernels > 0


def test_what_a_compiler_raises_has_the_error_line(config) -> None:
    def fail(*_) -> None:
        raise ValueError("the pass failed")

    config.post_grad_custom_pre_pass = fail
    module = torch.fx.symbolic_trace(lambda a: a + 1)
    with pytest.raises(ValueError, match=r"the pass failed(.|\n)*ERR03005 GRAPH"):
        torchair.get_compiler(config)(module, [torch.randn(3)])


@pytest.mark.checklist("T051")
@pytest.mark.parametrize(
    ("flag", "dynamic", "streams"),
    [("1", True, "auto"), ("0", True, "marked"), ("1", False, "marked")],
)
def test_streams_of_dynamic_graphs(monkeypatch, flag, dynamic, streams) -> None:
    monkeypatch.setenv("ENABLE_DYNAMIC_SHAPE_MULTI_STREAM", flag)
    given = []
    compile_graph = anabranch.backend.compile_graph

    def keep(*arguments, config, **more):
        given.append(config.streams)
        return compile_graph(*arguments, config=config, **more)

    monkeypatch.setattr(anabranch.backend, "compile_graph", keep)
    check(lambda x: (x.exp() + 1, x.sin() * 2), torch.randn(5, 6), dynamic=dynamic)
    assert given == [streams]


def test_a_graph_that_returns_no_tuple() -> None:
    def function(x):
        return (x + 1).relu()

    module = torch.fx.symbolic_trace(function)
    x = torch.randn(4)
    run = torchair.get_compiler()(module, [x])
    torch.testing.assert_close(run(x), function(x))
