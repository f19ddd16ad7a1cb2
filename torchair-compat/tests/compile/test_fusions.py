"""Built-in fusions: graphs show them, a file counts them, switches turn them off, and the
bits do not change."""

from __future__ import annotations

import json

import pytest
import torch

import torch_npu
import torchair
from pictures import compiled
from torchair._impl.errors import UnsupportedOption

DYNAMIC = "AddRmsNormDynamicQuantFusionPass"
CAST = "AddRmsNormCastFusionPass"
QUANT = "AddRmsNormQuantFusionPass"
TURNED = "TransposeBatchMatMulFusionPass"

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def floats(*shape):
    return torch.randn(*shape, dtype=torch.bfloat16)


def wholes(*shape):
    """Whole numbers, whose products have exact sums in any order."""
    return torch.randint(-4, 5, shape).bfloat16()


def dynamic_quant(a, b, gamma):
    y, _, total = torch_npu.npu_add_rms_norm(a, b, gamma)
    return *torch_npu.npu_dynamic_quant(y), total + 1


def smoothed(a, b, gamma, smooth):
    y, _, total = torch_npu.npu_add_rms_norm(a, b, gamma, 1e-5)
    return *torch_npu.npu_dynamic_quant(y, smooth_scales=smooth + 1), total


def flattened(a, b, gamma):
    y, _, total = torch_npu.npu_add_rms_norm(a, b, gamma)
    q, scale = torch_npu.npu_dynamic_quant(y.flatten(0, 1))
    return q, scale.view(-1, 1), total


def cast(a, b, gamma):
    y, _, total = torch_npu.npu_add_rms_norm(a, b, gamma)
    return y.view(-1, gamma.shape[-1]).float(), y, total


def cast_and_more(a, b, gamma):
    y, _, _ = torch_npu.npu_add_rms_norm(a, b, gamma)
    return y.float(), y * 2


def quantized(a, b, gamma, scales, points):
    y, _, total = torch_npu.npu_add_rms_norm(a, b, gamma)
    return torch_npu.npu_quantize(y, scales, points, torch.qint8, -1, True), total


def transposed(a, b):
    return torch.bmm(a.transpose(0, 1), b).transpose(0, 1)


def norm_inputs(width=8):
    return floats(2, 3, width), floats(2, 3, width), floats(width)


def check(function, inputs, config=None, **settings):
    """Asserts that the graph that the compiler gets has the bits of eager code."""
    torch._dynamo.reset()
    with torch.no_grad():
        found = compiled(function, config, **settings)(*inputs)
        wanted = function(*inputs)
    pairs = zip(found, wanted) if isinstance(wanted, tuple) else [(found, wanted)]
    for one, other in pairs:
        assert torch.equal(one, other)


def counts(folder):
    """For each fusion of the last graph: how often its pattern was found and applied."""
    path = folder / "fusion_result.json"
    if not path.exists():
        return {}
    *_, last = json.loads(path.read_text()).values()
    return {
        name: (int(count["match_times"]), int(count["effect_times"]))
        for name, count in last["graph_fusion"].items()
    }


@pytest.mark.checklist("T126")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [dynamic_quant, smoothed, flattened])
def test_norms_and_dynamic_scales(folder, function, dynamic) -> None:
    inputs = norm_inputs()
    inputs += (floats(8),) if function is smoothed else ()
    check(function, inputs, dynamic=dynamic)
    assert counts(folder) == {DYNAMIC: (1, 1)}


@pytest.mark.checklist("T126")
def test_no_fusion_where_the_option_is_off(folder, config) -> None:
    config.experimental_config.pattern_fusion_pass = False
    check(dynamic_quant, norm_inputs(), config)
    assert counts(folder) == {}


@pytest.mark.checklist("T126")
@pytest.mark.parametrize("streams", [("1", "1"), ("1", "2")])
def test_fusions_stay_on_one_stream(folder, caplog, debug, streams) -> None:
    def function(a, b, gamma):
        with torchair.scope.npu_stream_switch(streams[0]):
            y, _, _ = torch_npu.npu_add_rms_norm(a, b, gamma)
        with torchair.scope.npu_stream_switch(streams[1]):
            return torch_npu.npu_dynamic_quant(y)

    check(function, norm_inputs())
    crosses = streams[0] != streams[1]
    assert counts(folder) == {DYNAMIC: (1, int(not crosses))}
    text = "Cross-stream operation detected in pattern match."
    assert (text in caplog.text) == crosses


@pytest.mark.checklist("T127")
def test_norms_and_casts(folder) -> None:
    check(cast, norm_inputs())
    assert counts(folder) == {CAST: (1, 1)}
    check(cast_and_more, norm_inputs())
    assert counts(folder) == {CAST: (1, 0)}


def test_a_reciprocal_root_that_is_read_prevents_it(folder) -> None:
    def function(a, b, gamma):
        y, root, _ = torch_npu.npu_add_rms_norm(a, b, gamma)
        return *torch_npu.npu_dynamic_quant(y), root

    check(function, norm_inputs())
    assert counts(folder) == {DYNAMIC: (1, 0)}


def test_a_sum_that_the_scales_are_made_of_prevents_it(folder) -> None:
    def function(a, b, gamma):
        y, _, total = torch_npu.npu_add_rms_norm(a, b, gamma)
        return torch_npu.npu_dynamic_quant(y, smooth_scales=total[0, 0])

    check(function, norm_inputs())
    assert counts(folder) == {DYNAMIC: (1, 0)}


def graphs(monkeypatch):
    """The operators of each graph after the fusions."""
    from torchair._impl.compile import passes

    found = []
    lower = passes.lower_operators

    def keep(module):
        found.append({str(node.target) for node in module.graph.nodes})
        return lower(module)

    monkeypatch.setattr(passes, "lower_operators", keep)
    return found


@pytest.mark.parametrize("mode", ["npugraph_ex", "max-autotune"])
def test_norms_that_quantise_are_joined_in_capture_modes(
    config, monkeypatch, mode
) -> None:
    seen = graphs(monkeypatch)
    config.mode = mode
    a, b, gamma = norm_inputs(16)
    inputs = (a, b, gamma, floats(16).abs() + 0.1, floats(16))
    check(quantized, inputs, config)
    assert ("npu.npu_add_rms_norm_quant.default" in seen[0]) == (mode == "npugraph_ex")


@pytest.mark.checklist("T128")
@pytest.mark.parametrize("mode", ["npugraph_ex", "reduce-overhead", "max-autotune"])
def test_products_that_are_transposed(config, monkeypatch, mode) -> None:
    seen = graphs(monkeypatch)
    config.mode = mode
    check(transposed, (wholes(3, 2, 128), wholes(2, 128, 256)), config)
    joined = "npu.npu_transpose_batchmatmul.default" in seen[0]
    assert joined == (mode != "max-autotune")


@pytest.mark.checklist("T128")
@pytest.mark.parametrize(
    "inputs, function",
    [
        ((wholes(3, 2, 64), wholes(2, 64, 256)), transposed),
        ((wholes(3, 2, 128), wholes(2, 128, 100)), transposed),
        ((wholes(3, 2, 128).double(), wholes(2, 128, 256).double()), transposed),
        (
            (wholes(3, 2, 128), wholes(2, 128, 256)),
            lambda a, b: torch.bmm(a.transpose(0, 1), b).transpose(1, 2),
        ),
        (
            (wholes(2, 3, 128), wholes(2, 128, 256)),
            lambda a, b: torch.bmm(a, b).view(3, 2, 256).transpose(0, 1),
        ),
    ],
)
def test_layouts_that_do_not_match(config, monkeypatch, inputs, function) -> None:
    seen = graphs(monkeypatch)
    config.mode = "npugraph_ex"
    check(function, inputs, config)
    assert "npu.npu_transpose_batchmatmul.default" not in seen[0]


@pytest.mark.parametrize(
    "table, applied",
    [
        ({"ALL": "off"}, {}),
        ({DYNAMIC: "off"}, {}),
        ({"ALL": "off", DYNAMIC: "on"}, {DYNAMIC: (1, 1)}),
        ({}, {DYNAMIC: (1, 1)}),
    ],
)
def test_switches(folder, config, table, applied) -> None:
    path = folder / "switches.json"
    path.write_text(json.dumps({"Switch": {"GraphFusion": table}}))
    config.fusion_config.fusion_switch_file = str(path)
    check(dynamic_quant, norm_inputs(), config)
    assert counts(folder) == applied


def test_switches_that_are_wrong(folder, config) -> None:
    path = folder / "switches.json"
    path.write_text(json.dumps({"Switch": {"GraphFusion": {"Unknown": "off"}}}))
    config.fusion_config.fusion_switch_file = str(path)
    with pytest.warns(UserWarning, match="the fusion Unknown has no effect on this"):
        check(dynamic_quant, norm_inputs(), config)
    for text in ({"Switch": {"GraphFusion": {DYNAMIC: "of"}}}, [1], {"Switch": 1}):
        path.write_text(json.dumps(text))
        with pytest.raises(
            (UnsupportedOption, torch._dynamo.exc.BackendCompilerFailed)
        ):
            check(dynamic_quant, norm_inputs(), config)


@pytest.mark.parametrize("when", ["0", "1", "2"])
def test_when_the_file_is_written(folder, when) -> None:
    script = f"""
import os, torch, torch_npu, torchair
config = torchair.CompilerConfig()
config.ge_config.export_compile_stat = {when!r}
def function(a, b, gamma):
    return torch_npu.npu_dynamic_quant(torch_npu.npu_add_rms_norm(a, b, gamma)[0])
backend = torchair.get_npu_backend(compiler_config=config)
torch.compile(function, backend=backend)(*torch.ones(2, 3, 8), torch.ones(8))
print(os.path.exists("fusion_result.json"))
""".replace("*torch.ones(2, 3, 8)", "torch.ones(3, 8), torch.ones(3, 8)")
    from programs import run_script

    printed = run_script(folder, script).stdout
    assert printed.strip() == str(when == "2")
    assert bool(counts(folder)) == (when != "0")
