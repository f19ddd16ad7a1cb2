"""CompilerConfig: its tree of options, checks, warnings, and names in other modules."""

import os
import re
import time
import warnings

import pytest

import torchair
from torchair._impl.options import config as options
from torchair._impl.options.table import MODES, ROWS
from torchair.configs import compiler_config


def leaf(config, path):
    for name in path.split("."):
        config = getattr(config, name)
    return config


def put(config, path, value):
    *groups, last = path.split(".")
    for name in groups:
        config = getattr(config, name)
    setattr(config, last, value)


def test_one_class() -> None:
    assert torchair.CompilerConfig is compiler_config.CompilerConfig


@pytest.mark.parametrize("path", [row.path for row in ROWS])
def test_every_option_starts_with_its_default(config, path) -> None:
    row = next(row for row in ROWS if row.path == path)
    assert leaf(config, path).default == row.default
    assert leaf(config, path).optional == row.kind.allowed


@pytest.mark.checklist("T011")
def test_values_are_text(config) -> None:
    assert config.debug.run_eagerly.value == "0"
    config.debug.run_eagerly = True
    assert config.debug.run_eagerly.value == "1"
    assert bool(config.debug.run_eagerly)
    assert config.debug.graph_dump.type.value is None
    assert config.debug.aclgraph.static_capture_size_limit.value == "64"

    def function(*_) -> None:
        return None

    config.post_grad_custom_pre_pass = function
    assert config.post_grad_custom_pre_pass.value is function


@pytest.mark.checklist("T003")
def test_unknown_option(config) -> None:
    with pytest.raises(ValueError, match=r"CompilerConfig has no option speed"):
        config.speed = 1
    with pytest.raises(ValueError, match="has no option tpye"):
        config.debug.graph_dump.tpye = "pbtxt"
    with pytest.raises(ValueError, match="has no option nothing"):
        config.debug.nothing  # noqa: B018
    assert not hasattr(config, "speed")


def test_open_groups_take_any_name(config) -> None:
    config.export.anything = 3
    assert config.export.anything == 3
    with pytest.raises(ValueError, match="has no option"):
        config.export.experimental.anything = 3


WRONG = [
    ("mode", "fast", ValueError, r"'fast' .*not in optional list \['max-autotune'"),
    ("debug.run_eagerly", "yes", ValueError, r"not in optional list \[True, False\]"),
    ("debug.graph_dump.type", "dot", ValueError, "not in optional list"),
    (
        "experimental_config.static_model_ops_lower_limit",
        "3",
        ValueError,
        "Please set integer type, but got <class 'str'>",
    ),
    (
        "experimental_config.static_model_ops_lower_limit",
        -2,
        ValueError,
        r"Please set value in \[-1, \d+\], -2 is out of range",
    ),
    ("debug.aclgraph.static_capture_size_limit", 0, ValueError, "out of range"),
    ("debug.aclgraph.static_capture_size_limit", None, ValueError, "integer type"),
    (
        "fusion_config.fusion_switch_file",
        "nowhere.json",
        FileNotFoundError,
        "Please set legal file path, nowhere.json is not found or is not a file!",
    ),
    (
        "dump_config.dump_path",
        "nowhere",
        FileNotFoundError,
        "Please set legal dir path, nowhere is not found or is not a file directory!",
    ),
    ("aoe_config.work_path", None, FileNotFoundError, "Please set legal dir path"),
    ("dump_config.dump_config_path", "", ValueError, "File path cannot be empty!"),
    (
        "dump_config.dump_config_path",
        "nowhere.txt",
        FileNotFoundError,
        r"is not '\.json' file!",
    ),
    ("dump_config.dump_layer", "Add|", ValueError, "Please set legal regex value"),
    ("dump_config.dump_data", "values", ValueError, "not in optional list"),
    ("post_grad_custom_pre_pass", 3, TypeError, "value must be Callable or None"),
    (
        "experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir",
        3,
        TypeError,
        "value must be str or None",
    ),
    (
        "experimental_config.aclgraph._super_kernel_optimize_options",
        [],
        TypeError,
        "value must be dict or None",
    ),
    (
        "experimental_config.aclgraph._aclnn_static_shape_kernel_sym_value_range",
        3,
        TypeError,
        "the set value must be None or list",
    ),
    (
        "experimental_config.aclgraph._aclnn_static_shape_kernel_sym_value_range",
        ["3"],
        TypeError,
        "the set value must be int list",
    ),
    ("debug.graph_dump", "pbtxt", ValueError, "is a group of options"),
]


@pytest.mark.checklist("T003", "T004", "T005", "T006", "T007", "T008", "T009", "T010")
@pytest.mark.parametrize(("path", "value", "kind", "text"), WRONG)
def test_bad_value(config, path, value, kind, text) -> None:
    with pytest.raises(kind, match=text) as caught:
        put(config, path, value)
    assert "ERR03005 GRAPH internal error" in str(caught.value)
    assert "Traceback" in str(caught.value)
    assert config == torchair.CompilerConfig()


def test_file_of_fusion_switches_must_be_json(config, tmp_path) -> None:
    path = tmp_path / "switches.json"
    path.write_text("{")
    with pytest.raises(ValueError, match="is not valid json"):
        config.fusion_config.fusion_switch_file = str(path)
    path.write_text('{"Switch": {"GraphFusion": {"ALL": "off"}}}')
    config.fusion_config.fusion_switch_file = str(path)


STEPS = ["0", "12", "02|3|4", "0-1", "0|1|2-5|6", ""]
NO_STEPS = ["0ad", "0|2&", "--", "1-", "-1", "02||||34", "1--", "1--6"]


@pytest.mark.checklist("T009")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("steps", STEPS)
def test_steps(config, steps) -> None:
    config.dump_config.dump_step = steps
    assert config.dump_config.dump_step.value == steps


@pytest.mark.checklist("T009")
@pytest.mark.parametrize("steps", [*NO_STEPS, 3])
def test_no_steps(config, steps) -> None:
    with pytest.raises(ValueError, match="Please set legal regex value format match"):
        config.dump_config.dump_step = steps


def test_long_steps_are_refused_at_once(config) -> None:
    start = time.perf_counter()
    with pytest.raises(ValueError, match="legal regex"):
        config.dump_config.dump_step = "1" * 100_000 + "!"
    assert time.perf_counter() - start < 1


def test_paths_are_real(config, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    config.debug.graph_dump.path = "x/../y"
    assert config.debug.graph_dump.path.value == str(tmp_path / "y")
    assert os.fspath(config.debug.graph_dump.path) == str(tmp_path / "y")
    assert f"{config.debug.graph_dump.path}" == str(tmp_path / "y")
    for option in (config.debug.data_dump.path, config.debug.graph_dump.type):
        with pytest.raises(TypeError, match="is no path: None"):
            os.path.exists(option)


@pytest.mark.checklist("T012")
def test_equality(config) -> None:
    other = torchair.CompilerConfig()
    assert config == other
    other.experimental_config.frozen_parameter = True
    assert config != other
    assert config != 3


NO_EFFECT = [
    ("ge_config.aicore_num", "24|48"),
    ("ge_config.oo_level", "O1"),
    ("ge_config.optimization_switch", "Pass1:on"),
    ("aoe_config.aoe_mode", "2"),
    ("experimental_config.jit_compile", "auto"),
    ("experimental_config.cc_parallel_enable", True),
    ("experimental_config.memory_efficiency", True),
    ("experimental_config.tiling_schedule_optimize", True),
    ("dump_config.quant_dumpable", True),
    ("export.experimental.enable_lite_export", True),
    ("experimental_config.aclgraph._super_kernel_optimize_options", {}),
    ("experimental_config.aclgraph._super_kernel_debug_options", {}),
]


@pytest.mark.parametrize(("path", "value"), NO_EFFECT)
def test_options_without_effect_warn_once(config, path, value) -> None:
    with pytest.warns(UserWarning, match="has no effect on this host") as caught:
        put(config, path, value)
    assert len(caught) == 1
    assert path in str(caught[0].message)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        put(torchair.CompilerConfig(), path, value)


def test_options_that_are_missing_warn_if_changed(config) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config.export.experimental.auto_atc_config_generated = False
    with pytest.warns(UserWarning, match="is not supported yet"):
        config.export.experimental.auto_atc_config_generated = True


@pytest.mark.parametrize("row", [r for r in ROWS if r.status == "same"])
def test_options_that_are_so_anyway_say_why(config, row) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if row.default is not None:
            put(config, row.path, row.default)
    value = next(v for v in row.kind.allowed or [3] if v != row.default)
    with pytest.warns(UserWarning, match=re.escape(row.here.split("`")[0])):
        put(config, row.path, value)


TUNED = {
    "ge.exec.enableEngineParallel": "0",
    "ge.tiling_schedule_optimize": "0",
    "ge.featureBaseRefreshable": "0",
    "ge.topoSortingMode": "1",
    "ge.jit_compile": "2",
    "ge.enableSingleStream": "false",
    "ge.oo.level": "O3",
    "ge.exportCompileStat": "2",
    "mode": "max-autotune",
    "run_eagerly": "0",
    "clone_input": "1",
    "static_capture_size_limit": "64",
    "remove_noop_ops": "1",
}


@pytest.mark.checklist("T013")
def test_names_of_the_engine(config) -> None:
    local, everywhere = config.as_dict()
    assert TUNED.items() <= (local | everywhere).items()
    assert "ge.enableSingleStream" in everywhere
    assert "ge.exec.static_model_ops_lower_limit" not in local
    assert not [key for key in local if "static_shape" in key or "custom" in key]


@pytest.mark.checklist("T013")
@pytest.mark.filterwarnings("ignore")
def test_names_of_the_engine_follow_the_options(config) -> None:
    config.experimental_config.topology_sorting_strategy = "BFS"
    config.experimental_config.static_model_ops_lower_limit = 3
    config.ge_config.enable_single_stream = True
    config.ge_config.oo_constant_folding = True
    local, everywhere = config.as_dict()
    assert local["ge.topoSortingMode"] == "0"
    assert local["ge.exec.static_model_ops_lower_limit"] == "3"
    assert everywhere["ge.enableSingleStream"] == "true"
    assert everywhere["ge.oo.constantFolding"] == "true"
    config.ge_config.oo_level = "O1"
    assert config.as_dict()[0]["ge.topoSortingMode"] == "3"


@pytest.mark.checklist("T013")
@pytest.mark.filterwarnings("ignore")
def test_names_of_captures(config) -> None:
    config.mode = "reduce-overhead"
    key = "_aclnn_static_shape_kernel"
    local = config.as_dict()[0]
    assert "ge.topoSortingMode" not in local
    assert key not in local
    setattr(config.experimental_config.aclgraph, key, True)
    local = config.as_dict()[0]
    assert local[key] == "1"
    assert local[f"{key}_build_dir"] == ""
    assert local[f"{key}_sym_index"] == "0"


@pytest.mark.filterwarnings("ignore")
def test_dumps_have_their_own_folder(config, tmp_path) -> None:
    config.dump_config.dump_path = str(tmp_path)
    config.dump_config.enable_dump = True
    options = config.as_dict()[1]
    assert options["ge.exec.enableDump"] == "1"
    assert [str(p) for p in tmp_path.iterdir()] == [options["ge.exec.dumpPath"]]


def mode_warnings(config) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torchair.get_npu_backend(compiler_config=config)
    return [str(item.message) for item in caught]


@pytest.mark.checklist("T014")
@pytest.mark.filterwarnings("ignore")
def test_options_that_do_not_fit_the_mode(config) -> None:
    config.debug.aclgraph.clone_input = False
    config.ge_config.enable_single_stream = True
    (text,) = mode_warnings(config)
    assert "in max-autotune mode: config.debug.aclgraph.clone_input:0" in text
    assert "enable_single_stream" not in text
    config.mode = "reduce-overhead"
    texts = mode_warnings(config)
    assert '"reduce-overhead" mode configuration will be deprecated' in texts[0]
    assert "config.ge_config.enable_single_stream:1" in texts[1]
    assert "clone_input" not in texts[1]
    assert texts[1].endswith(", set_dim_gears, dynamo_export, scope, npu_print")
    config.mode = "npugraph_ex"
    assert not mode_warnings(config)


@pytest.mark.checklist("T014")
def test_defaults_fit_every_mode(config) -> None:
    assert not mode_warnings(config)
    config.mode = "reduce-overhead"
    assert len(mode_warnings(config)) == 1


VALUES = {
    "force_eager": True,
    "frozen_parameter": True,
    "capture_limit": 3,
    "clone_output": True,
    "data_dump_stage": "original",
    "data_dump_dir": "/",
    "use_graph_pool": (1, 0),
    "super_kernel_optimize_options": {"a": "b"},
    "super_kernel_debug_options": {"a": "b"},
    "_vllm_aclnn_static_kernel_sym_index": 1,
    "_vllm_aclnn_static_kernel_sym_range": [1, 2],
    "post_grad_custom_pre_pass": print,
    "post_grad_custom_post_pass": print,
}


@pytest.mark.checklist("T015")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", [row for row in ROWS if row.flat], ids=lambda r: r.flat)
def test_flat_names_reach_their_option(config, row) -> None:
    name = row.flat.removeprefix("-")
    value = VALUES.get(name, not row.default if not row.flat.startswith("-") else False)
    options.apply_flat(config, {name: value})
    reached = options.raw(config, row.path)
    assert reached == (not value if row.flat.startswith("-") else value)
    assert reached != row.default


@pytest.mark.checklist("T016")
def test_bad_flat_names_and_values(config) -> None:
    with pytest.raises(ValueError, match=r"Invalid option 'speed', allowed options"):
        options.apply_flat(config, {"speed": 1})
    with pytest.raises(ValueError, match=r"not in optional list \[True, False\]"):
        options.apply_flat(config, {"inplace_pass": "test"})


def test_rows_are_whole() -> None:
    assert len({row.path for row in ROWS}) == len(ROWS)
    assert {row.status for row in ROWS} <= {"works", "same", "none", "missing"}
    assert {row.grade for row in ROWS} == {"A", "B", "C"}
    assert all(set(row.odd) <= set(MODES) for row in ROWS)


def test_what_is_so_anyway_says_so_once() -> None:
    config = torchair.CompilerConfig()
    text = "topology_sorting_strategy='BFS' changes nothing on this host: the program"
    with pytest.warns(UserWarning, match=text):
        config.experimental_config.topology_sorting_strategy = "BFS"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config.experimental_config.topology_sorting_strategy = "BFS"
        config.experimental_config.topology_sorting_strategy = "DFS"


def test_frozen_parameters_are_a_promise() -> None:
    config = torchair.CompilerConfig()
    with pytest.warns(UserWarning, match="frozen_parameter is on: the memory and the"):
        config.experimental_config.frozen_parameter = True
