"""torchair.ops.npu_print prints values when the graph runs, in the order of the source."""

from __future__ import annotations

import pytest
import torch

import anabranch
import torchair as tng
from pictures import all_of, compiled, only, orders, pictures
from programs import run_script
from torchair import ops


@pytest.fixture
def graphs(monkeypatch):
    return pictures(monkeypatch)


def printed(capfd, function, *arguments, **settings) -> list[str]:
    """The compiled function's output. It prints as often as the eager one."""
    with torch.no_grad():
        function(*arguments)
        eager = capfd.readouterr().out
        compiled(function, **settings)(*arguments)
        assert capfd.readouterr().out == eager
    assert anabranch.counters.eager_graphs == 0
    return eager.splitlines()


VALUES = [
    (torch.tensor(3.0), {}, "3"),
    (torch.tensor(1 / 3), {}, "0.333333343"),
    (torch.tensor(1 / 3, dtype=torch.float64), {}, "0.333333333"),
    (torch.tensor(7), {}, "7"),
    (torch.tensor(True), {}, "1"),
    (torch.tensor(0.1, dtype=torch.bfloat16), {}, "0.100097656"),
    (torch.arange(6.0), {}, "[0 1 2 3 4 5]"),
    (torch.arange(7), {}, "[0 1 2 ... 4 5 6]"),
    (torch.arange(7), {"summarize_size": -1}, "[0 1 2 3 4 5 6]"),
    (torch.arange(7), {"summarize_size": 1}, "[0 ... 6]"),
    (torch.tensor([True, False]), {}, "[1 0]"),
    (torch.arange(4.0).reshape(2, 2), {}, "[[0 1]\n [2 3]]"),
    (
        torch.arange(6).reshape(3, 2),
        {"summarize_size": 1},
        "[[0 1]\n ...\n [4 5]]",
    ),
    (torch.zeros(0), {}, "[]"),
    (torch.zeros(2, 0), {}, "[]"),
    (
        torch.ones(2, 2),
        {"tensor_detail": True},
        "tensor([[1 1]\n [1 1]], shape=[2, 2], dtype=torch.float32)",
    ),
    (
        torch.ones(2, dtype=torch.bfloat16),
        {"tensor_detail": True},
        "tensor([1 1], shape=[2], dtype=torch.bfloat16)",
    ),
]


@pytest.mark.checklist("T057")
@pytest.mark.parametrize(("value", "options", "text"), VALUES)
def test_values(capfd, value, options, text) -> None:
    def function(x):
        ops.npu_print("x =", x, **options)
        return x.clone()

    assert printed(capfd, function, value) == f"x = {text}".splitlines()


def test_text_may_look_like_a_place_for_a_tensor(capfd) -> None:
    def function(x, y):
        ops.npu_print("{} {0}", x, 2, True, 0.5, "{1}", y)
        return x + y

    found = printed(capfd, function, torch.tensor(1), torch.tensor(4))
    assert found == ["{} {0} 1 2 True 0.5 {1} 4"]


@pytest.mark.checklist("T058")
def test_updates_between_prints_show(capfd) -> None:
    """Prints show updates between them, of arguments too, and on other streams."""

    def function(x):
        ops.npu_print("before", x)
        with tng.scope.npu_stream_switch("1"):
            x.add_(1)
        with tng.scope.npu_stream_switch("2"):
            ops.npu_print("between", x)
        x.mul_(2)
        ops.npu_print("after", x)

    x = torch.zeros(2)
    with torch.no_grad():
        run = compiled(function)
        run(x)
        run(x)
    assert torch.equal(x, torch.full((2,), 6.0))
    assert capfd.readouterr().out.splitlines() == [
        *("before [0 0]", "between [1 1]", "after [2 2]"),
        *("before [2 2]", "between [3 3]", "after [6 6]"),
    ]
    assert anabranch.counters.graphs == 1
    assert anabranch.counters.eager_graphs == 0


@pytest.mark.checklist("T058")
@pytest.mark.parametrize("mode", ["max-autotune", "npugraph_ex"])
def test_what_nobody_reads_is_printed(capfd, config, mode) -> None:
    config.mode = mode

    def function(x):
        ops.npu_print(x * 2)
        return x + 1

    run = compiled(function, config, dynamic=True)
    with torch.no_grad():
        for size in (2, 3, 4):
            run(torch.ones(size))
    assert capfd.readouterr().out.splitlines() == ["[2 2]", "[2 2 2]", "[2 2 2 2]"]
    assert anabranch.counters.eager_graphs == 0


@pytest.mark.checklist("T059")
@pytest.mark.parametrize(
    ("arguments", "options", "kind", "text"),
    [
        ((), {}, ValueError, "requires at least one tensor input"),
        (("x", 1), {}, ValueError, "requires at least one tensor input"),
        (([1],), {}, TypeError, r"must be torch\.Tensor or .* but got 'list' at p.* 0"),
        (
            (torch.ones(1), None),
            {},
            TypeError,
            r"basic type in \(str, bool, float, int\), but got 'NoneType' at position 1",
        ),
        (
            (torch.ones(1),),
            {"summarize_size": "3"},
            TypeError,
            "summarize_size must be int, got str",
        ),
        (
            (torch.ones(1),),
            {"summarize_size": 0},
            ValueError,
            "must be positive or -1 for all elements, got 0",
        ),
        (
            (torch.ones(1),),
            {"summarize_size": -2},
            ValueError,
            "must be positive or -1 for all elements, got -2",
        ),
        (
            (torch.ones(1),),
            {"tensor_detail": 1},
            TypeError,
            "tensor_detail must be bool, got int",
        ),
    ],
)
def test_wrong_arguments(arguments, options, kind, text) -> None:
    with pytest.raises(kind, match=text):
        ops.npu_print(*arguments, **options)


@pytest.mark.checklist("T060")
def test_prints_are_one_chain(graphs, capfd) -> None:
    def function(x):
        ops.npu_print("a", x)
        with tng.scope.npu_stream_switch("1"):
            ops.npu_print("b", x.exp())
        return x + 1

    compiled(function)(torch.ones(2))
    for graph in graphs:
        first, second = all_of(graph, "PrintV2")
        texts = all_of(graph, "StringFormat")
        assert [n.inputs[0] for n in (first, second)] == [f"{n.name}:0" for n in texts]
        assert orders(first) == []
        assert orders(second) == [first.name]
        assert second.stream == "1"
        assert orders(only(graph, "NetOutput")) == [second.name]
        assert texts[0].attributes["msg_format"] == "a {}"


@pytest.mark.checklist("T060")
def test_graphs_without_prints_have_no_chain(graphs) -> None:
    compiled(lambda x: x + 1)(torch.ones(2))
    for graph in graphs:
        assert orders(only(graph, "NetOutput")) == []


def test_a_cached_method_prints(tmp_path, monkeypatch) -> None:
    script = (
        "import torch, torchair\n"
        "class Model(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.run = torchair.inference.cache_compile(self.inner)\n"
        "    def inner(self, x):\n"
        "        torchair.ops.npu_print('x', x)\n"
        "        return x + 1\n"
        "print(Model().run(torch.ones(3)))\n"
    )
    monkeypatch.setenv("TNG_LOG_LEVEL", "1")
    texts = [run_script(tmp_path, script).stdout for _ in range(2)]
    assert all("x [1 1 1]\n" in text for text in texts)
    assert "saved to" in texts[0]
    assert "loaded from" in texts[1]
