"""set_dim_gears: its errors, the programs that it makes, and its log."""

import re

import pytest
import torch

import anabranch
import guide
import torchair
from programs import run_script


def gears(tensor, dims):
    torchair.inference.set_dim_gears(tensor, dim_gears=dims)
    return tensor


def compiled(function, config, policy="zip", **settings):
    config.inference_config.dynamic_gears_merge_policy = policy
    backend = torchair.get_npu_backend(compiler_config=config)
    return torch.compile(function, backend=backend, fullgraph=True, **settings)


def apart(a, b):
    return a * 2, b * 3


@pytest.mark.checklist("T064")
@pytest.mark.parametrize(
    ("dims", "text"),
    [
        (
            {1.0: [2, 4]},
            "Dim index in dim_gears must be an integer, but got <class 'float'>.",
        ),
        ({2: [2, 4]}, "Dim index in dim_gears must be in range [0, 1], but got 2."),
        ({-1: [2, 4]}, "Dim index in dim_gears must be in range [0, 1], but got -1."),
        (
            {0: 4},
            (
                "Gears for dim index 0 in dim_gears must be a list or tuple, but got"
                " <class 'int'>."
            ),
        ),
        (
            {0: [2, 4.0]},
            (
                "Element at index 1 of value for dim index 0 in dim_gears must be an"
                " integer, but got <class 'float'>."
            ),
        ),
        (
            {0: [0, 4]},
            "Gear value at index 0 for dim index 0 must not be 0, but got 0.",
        ),
        (
            {0: [2]},
            (
                "Length of gears for dim index 0 in dim_gears must be in range [2, 100],"
                " but got 1."
            ),
        ),
        (
            {0: list(range(2, 103))},
            (
                "Length of gears for dim index 0 in dim_gears must be in range [2, 100],"
                " but got 101."
            ),
        ),
    ],
)
def test_errors_of_arguments(dims, text) -> None:
    with pytest.raises(AssertionError) as caught:
        gears(torch.ones(2, 2), dims)
    assert str(caught.value) == text


@pytest.mark.checklist("T064")
def test_gears_are_set_once() -> None:
    tensor = torch.ones(2, 2)
    for _ in range(2):
        gears(tensor, {0: [2, 4]})
    with pytest.raises(AssertionError) as caught:
        gears(tensor, {0: [2, 5]})
    assert str(caught.value) == (
        f"Tensor {tensor} already has set dim gears, and it is not supported to set it"
        " again."
    )
    assert tensor.dim_gears == {0: [2, 4]}


def test_earlier_keys_are_marked_when_a_later_one_fails() -> None:
    tensor = torch.ones(2, 2)
    with pytest.raises(AssertionError):
        gears(tensor, {0: [2, 4], 5: [2, 4]})
    assert tensor._dynamo_dynamic_indices == {0}
    assert not hasattr(tensor, "dim_gears")


@pytest.mark.checklist("T066")
def test_second_size_needs_no_compilation(config) -> None:
    model = compiled(torch.tanh, config)
    x = gears(torch.randn(8, 4), {0: [8, 4]})
    for argument in (x, torch.randn(4, 4), torch.randn(8, 4)):
        torch.testing.assert_close(model(argument), torch.tanh(argument))
    assert anabranch.counters.graphs == 1


@pytest.mark.checklist("T065")
def test_ninety_eight_gears(config) -> None:
    model = compiled(lambda x: x + 1, config)
    x = gears(torch.randn(2, 4), {0: list(range(2, 100))})
    for argument in (x, torch.randn(99, 4), torch.randn(57, 4)):
        torch.testing.assert_close(model(argument), argument + 1)
    assert anabranch.counters.graphs == 1


def options(caplog, name):
    lines = [record.getMessage().strip() for record in caplog.records]
    return [line.partition(" = ")[2] for line in lines if line.startswith(name + " ")]


@pytest.mark.checklist("T067")
def test_options_of_a_product(config, caplog, debug) -> None:
    model = compiled(lambda x: x + 1, config, "product")
    with caplog.at_level(10, torchair.logger.name):
        model(gears(torch.randn(2, 3), {0: [2, 4], 1: [3, 5]}))
    assert options(caplog, "ge.inputShape") == ["arg2_1:-1,-1"]
    [combinations] = options(caplog, "ge.dynamicDims")
    assert sorted(combinations.split(";")) == ["2,3", "2,5", "4,3", "4,5"]
    assert options(caplog, "ge.dynamicNodeType") == ["1"]
    for rows, columns in ((2, 5), (4, 3), (4, 5)):
        x = torch.randn(rows, columns)
        torch.testing.assert_close(model(x), x + 1)
    assert anabranch.counters.graphs == 1


@pytest.mark.checklist("T068")
def test_options_of_a_zip(config, caplog, debug) -> None:
    model = compiled(torch.add, config)
    x1, x2 = (gears(torch.ones(2, 2), {0: [2, 4]}) for _ in range(2))
    with caplog.at_level(10, torchair.logger.name):
        model(x1, x2)
    [shapes] = options(caplog, "ge.inputShape")
    assert re.fullmatch(r"arg\d_1:-1,2;arg\d_1:-1,2", shapes)
    assert options(caplog, "ge.dynamicDims") == ["2,2;4,4"]


@pytest.mark.checklist("T068", "T069", "T070")
@pytest.mark.parametrize(
    ("policy", "first", "second", "text"),
    [
        (
            "zip",
            [2, 4],
            [2, 4, 6],
            "when dynamic_gears_merge_policy is zip, input gears len must same.",
        ),
        (
            "product",
            list(range(2, 32)),
            list(range(2, 32)),
            (
                "The total number of gears set cannot exceed 100, and the current number of"
                " gears is: 900"
            ),
        ),
        (
            "zip",
            [4, 6],
            [2, 4],
            "The index 2 of the current tensor shape is not within the range [4, 6]",
        ),
    ],
)
def test_errors_of_combinations(config, policy, first, second, text) -> None:
    x = gears(torch.randn(2, 3), {0: first})
    y = gears(torch.randn(2, 3), {0: second})
    with pytest.raises(AssertionError, match=re.escape(text)):
        compiled(apart, config, policy)(x, y)


@pytest.mark.checklist("T069")
def test_duplicates_are_one(config) -> None:
    x = gears(torch.randn(2, 10), {0: [2, 3, 4, 2, 3, 4], 1: [10, 10, 10, 20, 20, 20]})
    model = compiled(torch.exp, config)
    for rows, columns in ((2, 10), (3, 20), (4, 10)):
        argument = x if (rows, columns) == (2, 10) else torch.randn(rows, columns)
        torch.testing.assert_close(model(argument), argument.exp())
    assert anabranch.counters.graphs == 1


@pytest.mark.checklist("T071")
def test_a_size_outside_compiles_again(config) -> None:
    model = compiled(torch.exp, config)
    model(gears(torch.randn(2, 3), {0: [2, 4]}))
    x = torch.randn(3, 3)
    torch.testing.assert_close(model(x), torch.exp(x))
    assert anabranch.counters.graphs == 2
    with pytest.raises(AssertionError, match="index 7 of the current tensor shape"):
        model(gears(torch.randn(7, 2), {0: [2, 4]}))


def test_a_pair_that_zip_does_not_list(config) -> None:
    model = compiled(apart, config)
    model(*(gears(torch.randn(2, 2), {0: [2, 4]}) for _ in range(2)))
    with pytest.raises(RuntimeError, match=r"sizes \[2, 2, 4, 4\]"):
        model(torch.randn(2, 2), torch.randn(4, 2))


@pytest.mark.checklist("T072")
def test_a_buffer_of_the_caller_is_the_result(config) -> None:
    def into(x, out):
        torch.add(x, 1, out=out)
        return out, x * 2

    model = compiled(into, config)
    for rows in (2, 4):
        x, out = torch.randn(rows, 3), torch.empty(rows, 3)
        if rows == 2:
            gears(x, {0: [2, 4]})
            gears(out, {0: [2, 4]})
        first, second = model(x, out)
        assert first is out
        torch.testing.assert_close(out, x + 1)
        torch.testing.assert_close(second, x * 2)
    assert anabranch.counters.graphs == 1


@pytest.mark.checklist("T074")
@pytest.mark.parametrize("policy", ["zip", "product"])
def test_the_page_s_script(policy, tmp_path) -> None:
    """The page's script, and the same with a function that takes mixed pairs."""
    script = guide.gears_script()
    if policy == "product":
        script = script.replace('policy = "zip"', 'policy = "product"', 1)
        script = script.replace("return x1 + x2", "return x1 @ x2.t()")
        script += "print(model(torch.ones(2, 2), torch.ones(4, 2)))\n"
        script += "print(model(torch.ones(4, 2), torch.ones(2, 2)))\n"
    script += "import anabranch\nassert anabranch.counters.graphs == 1\n"
    done = run_script(tmp_path, script)
    assert not done.stderr
    rows = [2, 4] if policy == "zip" else [2, 4, 2, 4]
    assert len(re.findall(r"\[2\., 2\.", done.stdout)) == sum(rows)


@pytest.mark.checklist("T096")
def test_frozen_parameters_in_the_log(config, caplog, debug) -> None:
    config.experimental_config.frozen_parameter = True
    first, second = (torch.nn.Parameter(torch.ones(2).npu()) for _ in range(2))

    def unused(p, q, y):
        q * 2
        return p + y

    with caplog.at_level(10, torchair.logger.name), torch.no_grad():
        compiled(lambda p, x, y: p + x + y, config)(first, *torch.ones(2, 2))
        compiled(unused, config)(first, second, torch.ones(2))
    assert options(caplog, "ge.exec.frozenInput") == ["1,0,0", "1,1,0"]
