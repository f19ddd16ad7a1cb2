"""torchair.scope: attributes of scopes, waits, and refusals."""

from __future__ import annotations

import contextlib
import re

import pytest
import torch

import anabranch
import torch_npu
import torchair as tng
from pictures import all_of, compiled, only, orders, pictures
from torchair._impl import errors

STREAM_KEYS = {"_user_stream_label", "_user_stream_priority", "_enable_inner_parallel"}


@pytest.fixture
def graphs(monkeypatch):
    return pictures(monkeypatch)


def test_names() -> None:
    assert tng.scope.npu_stream_switch is tng.scope.__dict__["npu_stream_switch"]
    public = {name for name in dir(tng.scope) if not name.startswith("_")}
    assert set(tng.scope.__all__) <= public


def example(in1, in2, in3, in4):
    add_result = torch.add(in1, in2)
    with tng.scope.npu_stream_switch("1"):
        tng.scope.npu_wait_tensor(in4, add_result)
        mm_result = torch.mm(in3, in4)
    mm1 = torch.mm(in3, in4)
    with tng.scope.npu_stream_switch("2"):
        tng.scope.npu_wait_tensor(in4, mm_result)
        add2 = torch.add(in3, in4)
    return add_result, mm_result, mm1, add2


@pytest.mark.checklist("T040", "T041", "T042", "T043")
def test_example_of_the_guide(graphs) -> None:
    inputs = [torch.randn(32, 32) for _ in range(4)]
    add_result, mm_result, mm1, add2 = compiled(example)(*inputs)
    assert torch.equal(add_result, inputs[0] + inputs[1])
    assert torch.equal(add2, inputs[2] + inputs[3])
    assert torch.equal(mm_result, mm1)
    torch.testing.assert_close(mm1, inputs[2] @ inputs[3])
    for graph in graphs:
        first, second = all_of(graph, "MatMul")
        assert first.attributes["_user_stream_label"] == b"1"
        assert first.attributes["_user_stream_priority"] == b"0"
        assert first.attributes["_enable_inner_parallel"] is True
        add, other = all_of(graph, "Add")
        assert not STREAM_KEYS & (set(second.attributes) | set(add.attributes))
        assert other.stream == "2"
        one, two = all_of(graph, "Identity")
        assert (one.stream, orders(one)) == ("1", [add.name])
        assert (two.stream, orders(two)) == ("2", [first.name])
        assert f"{one.name}:0" in first.inputs
        assert f"{two.name}:0" in other.inputs
        assert f"{one.name}:0" not in second.inputs
        assert graph.nodes[-1].type == "NetOutput"


def test_log_shows_streams_and_events(debug, capsys) -> None:
    compiled(example)(*(torch.randn(8, 8) for _ in range(4)))
    log = capsys.readouterr().out
    assert "Set attribute _user_stream_label: 1 on op: MatMul" in log
    start = example.__code__.co_firstlineno

    def at(line: int) -> str:
        return f"at {__file__}:{start + line}"

    for text in (
        f"Event: mm {at(4)} on stream 1 waits for add {at(1)} on stream default",
        f"Event: add {at(8)} on stream 2 waits for mm {at(4)} on stream 1",
        f": add {at(1)}, mm {at(5)}",
        f": mm {at(4)}",
        f": add {at(8)}",
    ):
        assert re.search(rf"{re.escape(text)}$", log, re.MULTILINE)


def test_log_shows_what_was_compiled(debug, capsys) -> None:
    """The log shows the compiled program, not the traced graph: an operator may be gone,
    and streams that need no event are one."""

    def function(x):
        with tng.scope.npu_stream_switch("side"):
            y = (x + 1) * 2 - 3
        return y

    compiled(function)(torch.randn(8))
    log = capsys.readouterr().out
    (line,) = re.findall(r"Stream side of graph_\d+: (.*)", log)
    assert line.startswith("add, mul, sub at ")
    assert "Event:" not in log


@pytest.mark.filterwarnings("ignore")
def test_log_of_super_kernels_and_gears(debug, capsys) -> None:
    def function(x):
        with tng.scope.super_kernel("sp"):
            return (x @ x.t()).relu() @ x

    x = torch.randn(4, 8)
    tng.inference.set_dim_gears(x, {0: [4, 6]})
    backend = tng.get_npu_backend()
    torch.compile(function, backend=backend, fullgraph=True)(x)
    log = capsys.readouterr().out
    assert re.search(r"Stream default of graph_\d+: super 'sp_0' \(mm, relu", log)
    assert re.search(r"graph_\d+ has 1 programs more, for other sizes", log)


def test_result_of_a_wait_is_the_tensor(graphs) -> None:
    def function(x, y):
        z = x * y
        with tng.scope.npu_stream_switch("1"):
            waited = tng.scope.npu_wait_tensor(x, z)
            return z, waited + 1, waited

    x, y = torch.randn(4), torch.randn(4)
    z, w, same = compiled(function)(x, y)
    assert torch.equal(z, x * y)
    assert torch.equal(w, x + 1)
    assert torch.equal(same, x)
    wait = only(graphs[0], "Identity")
    assert f"{wait.name}:0" in only(graphs[0], "Add").inputs


def test_waits_for_what_is_there_already() -> None:
    def function(x, y):
        with tng.scope.npu_stream_switch("1"):
            tng.scope.npu_wait_tensor(x, y)
            return x + 1

    x = torch.randn(4)
    assert torch.equal(compiled(function)(x, x + 1), x + 1)


def test_wait_is_only_for_graphs() -> None:
    x = torch.randn(4)
    with pytest.raises(NotImplementedError, match="npu_wait_tensor is not support in"):
        tng.scope.npu_wait_tensor(x, x)
    with pytest.raises((RuntimeError, TypeError)):
        tng.scope.npu_wait_tensor(x, 3)


@pytest.mark.checklist("T056")
@pytest.mark.filterwarnings("ignore")
def test_wait_is_not_for_capture_modes(config) -> None:
    config.mode = "reduce-overhead"
    with pytest.raises(NotImplementedError, match="wait_tensor kernel_impl is not imp"):
        compiled(example, config)(*(torch.randn(8, 8) for _ in range(4)))


@pytest.mark.checklist("T044")
def test_equal_work_on_different_streams_is_done_twice(graphs) -> None:
    def function(x):
        with tng.scope.npu_stream_switch("1"):
            a = x.exp()
        with tng.scope.npu_stream_switch("2"):
            b = x.exp()
        return a, b, x.exp()

    x = torch.randn(4)
    for found in compiled(function)(x):
        torch.testing.assert_close(found, x.exp())
    assert [n.stream for n in all_of(graphs[-1], "Exp")] == ["1", "2", None]


@pytest.mark.checklist("T045", "T046")
def test_scopes_nest(graphs) -> None:
    def function(x):
        with tng.scope.super_kernel("sp", "stream-fusion=1"):
            a = x.exp()
            with tng.scope.npu_stream_switch("1"):
                b = x.sin()
                with tng.scope.npu_stream_switch("2"):
                    c = x.cos()
                with tng.scope.super_kernel(None):
                    d = x.tanh()
            e = x.sqrt()
        return a, b, c, d, e, x.neg()

    compiled(function)(torch.rand(4))
    graph = graphs[0]
    super_only = {
        "_super_kernel_scope": b"sp",
        "_super_kernel_options": b"stream-fusion=1",
    }
    assert only(graph, "Exp").attributes == super_only
    assert only(graph, "Sqrt").attributes == super_only
    assert super_only.items() <= only(graph, "Sin").attributes.items()
    assert only(graph, "Sin").stream == "1"
    assert super_only.items() <= only(graph, "Cos").attributes.items()
    assert only(graph, "Cos").stream == "2"
    assert set(only(graph, "Tanh").attributes) == STREAM_KEYS
    assert not only(graph, "Neg").attributes


@pytest.mark.checklist("T046")
def test_removed_attributes_are_logged(debug, capsys) -> None:
    def function(x):
        with tng.scope.super_kernel("sp"), tng.scope.super_kernel(""):
            return x.exp()

    compiled(function)(torch.rand(4))
    log = capsys.readouterr().out
    assert "Removed attribute _super_kernel_scope on op: Exp" in log


@pytest.mark.checklist("T047")
def test_limits_of_cores_nest(graphs) -> None:
    def function(x):
        with tng.scope.limit_core_num(4, 5):
            a = x.exp()
            with tng.scope.limit_core_num("2", "3"):
                return a, x.sin()

    compiled(function)(torch.rand(4))
    outer = {"_op_aicore_num": b"4", "_op_vectorcore_num": b"5"}
    assert only(graphs[0], "Exp").attributes == outer
    inner = {"_op_aicore_num": b"2", "_op_vectorcore_num": b"3"}
    assert only(graphs[0], "Sin").attributes == inner


@pytest.mark.checklist("T049")
def test_no_time_limit(graphs) -> None:
    def function(x):
        with tng.scope.op_never_timeout(False):
            return x.exp()

    with pytest.warns(UserWarning, match="op_never_timeout has no effect"):
        compiled(function)(torch.rand(4))
    assert only(graphs[0], "Exp").attributes == {"_op_exec_never_timeout": False}
    text = "op_never_timeout() argument 'enable' must be bool, but got int."
    with pytest.raises(TypeError) as caught:
        tng.scope.op_never_timeout(1)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("scope", "text"),
    [
        (lambda: tng.scope.npu_stream_switch("1", 3), "stream_priority has no effect"),
        (
            lambda: tng.scope.npu_stream_switch("1", 0, False),
            "enable_inner_parallel=False has no effect",
        ),
        (lambda: tng.scope.limit_core_num("all", 1), r"limit_core_num\(all, ...\) has"),
        (lambda: tng.scope.super_kernel("sp", "speed=1"), "no option 'speed'"),
        (lambda: tng.scope.super_kernel("sp", "nonsense"), "'nonsense' is no option"),
        (
            lambda: tng.scope.super_kernel("sp", "feed-sync-all=1"),
            "the option feed-sync-all has no effect",
        ),
    ],
)
def test_what_has_no_effect_says_so(scope, text) -> None:
    def function(x):
        with scope():
            return x.exp()

    x = torch.rand(4)
    with pytest.warns(UserWarning, match=text):
        found = compiled(function)(x)
    torch.testing.assert_close(found, x.exp())


def units() -> dict[str, int]:
    found = anabranch.last_report()["super_kernels"]
    return {entry["name"]: entry["launches"] for entry in found}


@pytest.fixture
def uncached(monkeypatch):
    """Turns the cache off, because reports describe compilations."""
    monkeypatch.setenv("ANABRANCH_CACHE", "0")


def layer(x, w):
    with tng.scope.super_kernel("sp", "stream-fusion=1"):
        with tng.scope.limit_core_num(1, 1):
            a = (x @ w).softmax(-1)
        with tng.scope.npu_stream_switch("1"):
            b = (x @ w.t()).softmax(-1)
        return a @ b


@pytest.mark.checklist("T100")
def test_super_kernels_are_one_launch(uncached) -> None:
    x, w = torch.randn(16, 16), torch.randn(16, 16)
    found = compiled(layer)(x, w)
    assert units() == {"sp_0": 5}
    assert anabranch.last_report()["super_kernels"][0]["streams"] == 2
    torch.testing.assert_close(found, layer(x, w))


def test_the_page_of_super_kernels_is_one_launch(uncached) -> None:
    """The page's product and quantisation, at a small size, are one launch and have the
    same bits."""
    inputs = [
        torch.randint(-10, 10, (32, 256), dtype=torch.int8),
        torch.randint(-10, 10, (256, 128), dtype=torch.int8),
        torch.randn(128),
        torch.randn(32),
        torch.randn(32, 128),
    ]

    def run(name):
        def function(x1, x2, scale, pertoken, weight):
            with tng.scope.super_kernel(name, "strict-scope-check=abort"):
                product = torch_npu.npu_quant_matmul(
                    x1,
                    x2,
                    scale,
                    pertoken_scale=pertoken,
                    output_dtype=torch.bfloat16,
                )
                return *torch_npu.npu_dequant_swiglu_quant(
                    product, weight_scale=weight
                ), product

        torch._dynamo.reset()
        return compiled(function)(*inputs)

    alone, one = run(None), run("sp1")
    [entry] = anabranch.last_report()["super_kernels"]
    assert (entry["name"], entry["launches"]) == ("sp1_0", 2)
    assert "test_scope.py:" in entry["location"]
    assert all(map(torch.equal, alone, one))


@pytest.mark.checklist("T118")
@pytest.mark.parametrize("mode", ["reduce-overhead", "npugraph_ex"])
def test_capture_modes_have_no_super_kernels(uncached, mode) -> None:
    config = tng.CompilerConfig()
    config.mode = mode
    errors.reset_warnings()
    with pytest.warns(UserWarning, match="no effect on this host in a capture mode"):
        compiled(layer, config)(torch.randn(4, 4), torch.randn(4, 4))
    assert not units()


@pytest.mark.checklist("T101")
def test_symbolic_sizes_leave_attributes_alone(uncached, graphs) -> None:
    """A scope of symbolic sizes is a super kernel on this host, as far as it can be one."""

    def function(x):
        with tng.scope.super_kernel("sp", "strict-scope-check=abort"):
            return torch.special.bessel_j0(x.softmax(-1).cumsum(0))

    x = torch.randn(5, 8)
    run = torch.compile(function, backend=tng.get_npu_backend(), dynamic=True)
    torch.testing.assert_close(run(x), function(x))
    assert units() == {"sp_0": 2}
    names = {node.attributes.get("_super_kernel_scope") for node in graphs[-1].nodes}
    assert b"sp" in names


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("strict-scope-check=abort", "strict-scope-check=abort asks for one"),
        ("speed=1:strict-scope-check=abort", "(?s)no option 'speed'.*test_scope.py"),
    ],
)
def test_super_kernel_that_must_be_one(options, text) -> None:
    def function(x):
        with tng.scope.super_kernel("sp", options):
            return torch.special.bessel_j0(x.exp()).softmax(-1)

    with pytest.raises(RuntimeError if "asks" in text else ValueError, match=text):
        compiled(function)(torch.rand(4, 4))


@pytest.mark.parametrize(
    ("scope", "argument"),
    [
        (lambda: tng.scope.npu_stream_switch(1), "stream_tag"),
        (lambda: tng.scope.super_kernel(3), "scope"),
        (lambda: tng.scope.super_kernel("sp", 3), "options"),
    ],
)
def test_names_are_text(scope, argument) -> None:
    def function(x):
        with scope():
            return x + 1

    text = f"argument '{argument}' must be str, but got int"
    with pytest.raises(TypeError, match=text):
        function(torch.ones(2))
    with pytest.raises(Exception, match=text):
        compiled(function)(torch.ones(2))


def test_scopes_do_nothing_eagerly() -> None:
    with tng.scope.npu_stream_switch("1"), tng.scope.super_kernel("sp"):
        assert torch.equal(torch.ones(2) + 1, torch.full((2,), 2.0))


def test_scopes_in_helpers_loops_and_context_managers(graphs) -> None:
    @contextlib.contextmanager
    def mine(tag):
        with tng.scope.npu_stream_switch(tag):
            yield

    def helper(x, tag):
        with mine(tag):
            return x.exp()

    def function(x):
        parts = [helper(x + i, str(i)) for i in range(3)]
        return torch.stack(parts)

    x = torch.randn(4)
    torch.testing.assert_close(
        compiled(function)(x), torch.stack([(x + i).exp() for i in range(3)])
    )
    assert [n.stream for n in all_of(graphs[0], "Exp")] == ["0", "1", "2"]


@pytest.mark.checklist("T051")
@pytest.mark.parametrize("flag", ["0", "1"])
def test_symbolic_sizes(monkeypatch, graphs, flag) -> None:
    monkeypatch.setenv("ENABLE_DYNAMIC_SHAPE_MULTI_STREAM", flag)
    function = compiled(example, dynamic=True)
    for size in (4, 6):
        inputs = [torch.randn(size, size) for _ in range(4)]
        assert torch.equal(function(*inputs)[0], inputs[0] + inputs[1])
    assert len(graphs) == 2
    assert [n.stream for n in all_of(graphs[0], "MatMul")] == ["1", None]


@pytest.mark.checklist("T052")
def test_single_stream_excludes_streams(config) -> None:
    config.ge_config.enable_single_stream = True
    inputs = [torch.randn(4, 4) for _ in range(4)]
    text = "enable_single_stream and torchair.scope.npu_stream_switch exclude"
    with pytest.raises(ValueError, match=text) as caught:
        compiled(example, config)(*inputs)
    assert "test_scope.py" in str(caught.value)
    assert "in example: tng.scope.npu_wait_tensor(in4, add_result)" in str(caught.value)
    torch._dynamo.reset()
    compiled(example, config, dynamic=True)(*inputs)
    plain = compiled(lambda x: x + 1, config)
    assert torch.equal(plain(inputs[0]), inputs[0] + 1)


@pytest.mark.checklist("T050")
def test_scopes_by_hand_must_pair(config) -> None:
    def opens(module, *_) -> None:
        first = next(n for n in module.graph.nodes if n.op == "call_function")
        with module.graph.inserting_before(first):
            module.graph.call_function(
                torch.ops.air.scope_enter.default, (["key"], ["value"])
            )

    def closes(module, *_) -> None:
        last = list(module.graph.nodes)[-1]
        with module.graph.inserting_before(last):
            module.graph.call_function(torch.ops.air.scope_exit.default, ())

    def both(*arguments) -> None:
        opens(*arguments)
        closes(*arguments)

    texts = {
        opens: r"there is no paired call to the torch.ops.air.scope_exit.*'value'",
        closes: "you must first call the torch.ops.air.scope_enter operator",
    }
    for function, text in texts.items():
        config.post_grad_custom_post_pass = function
        with pytest.raises(RuntimeError, match=text):
            compiled(lambda x: x + 1, config)(torch.randn(3))
        torch._dynamo.reset()
    config.post_grad_custom_post_pass = both
    compiled(lambda x: x + 1, config)(torch.randn(3))


def test_attributes_by_hand(config, graphs) -> None:
    def mark(module, *_) -> None:
        for node in list(module.graph.nodes):
            if node.target is torch.ops.aten.exp.default:
                with module.graph.inserting_before(node):
                    module.graph.call_function(
                        torch.ops.air.scope_enter.default, (["key"], ["value"])
                    )
                with module.graph.inserting_after(node):
                    module.graph.call_function(torch.ops.air.scope_exit.default, ())

    config.post_grad_custom_pre_pass = mark
    compiled(lambda x: x.exp() + x, config)(torch.randn(3))
    assert only(graphs[0], "Exp").attributes == {"key": b"value"}
    assert not only(graphs[0], "Add").attributes


def test_scopes_while_training(graphs) -> None:
    weight = torch.randn(4, 4, requires_grad=True)

    def function(x):
        with tng.scope.npu_stream_switch("1"):
            return (x @ weight).sum()

    x = torch.randn(4, 4)
    compiled(function)(x).backward()
    torch.testing.assert_close(weight.grad, x.t() @ torch.ones(4, 4))


@pytest.mark.checklist("T118")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["reduce-overhead", "npugraph_ex"])
def test_streams_in_capture_modes(config, mode) -> None:
    config.mode = mode

    def function(x):
        with tng.scope.npu_stream_switch("1"), tng.scope.super_kernel("sp"):
            return x.exp() + 1

    x = torch.randn(4)
    torch.testing.assert_close(compiled(function, config)(x), x.exp() + 1)


def reads_on_another_stream(x):
    with tng.scope.npu_stream_switch("1"):
        y = x[1:].cumsum(0)
    x.mul_(0.5)
    return y


def writes_on_another_stream(x):
    with tng.scope.npu_stream_switch("1"):
        y = (x + 1).cumsum(0)
    with tng.scope.npu_stream_switch("2"):
        x.mul_(0.5)
    return y, x + 1


@pytest.mark.parametrize("mode", ["max-autotune", "npugraph_ex"])
@pytest.mark.parametrize(
    "function", [reads_on_another_stream, writes_on_another_stream]
)
def test_a_write_waits_for_readers_on_other_streams(config, mode, function) -> None:
    config.mode = mode
    x = torch.randn(64, 64)
    copy = x.clone()
    torch.testing.assert_close(compiled(function, config)(x), function(copy))
    assert torch.equal(x, copy)
