"""The backend `npugraph_ex`, the capture path under its own name."""

from __future__ import annotations

import pytest
import torch
from torch._functorch.aot_autograd import aot_module_simplified

import anabranch
import npugraph_ex
import torch_npu  # noqa: F401 - makes torch.npu
import torchair
from torchair._impl import errors


def model(x, y):
    return (x @ y).relu() + 1


INPUTS = torch.randn(4, 5), torch.randn(5, 6)


def test_names() -> None:
    assert torch.npu.npugraph_ex is npugraph_ex
    assert npugraph_ex.logger is torchair.logger
    assert npugraph_ex.scope.limit_core_num is torchair.scope.limit_core_num
    for name in npugraph_ex.__all__:
        assert hasattr(npugraph_ex, name)


@pytest.mark.checklist("T017")
def test_defaults_and_values() -> None:
    config = npugraph_ex.CompilerConfig()
    assert config.mode.value == "npugraph_ex"
    assert config.capture_limit.value == "64"
    for name in ("force_eager", "clone_output", "static_kernel_compile"):
        assert getattr(config, name).value is False
    for name in ("inplace_pass", "input_inplace_pass", "reuse_graph_pool_in_same_fx"):
        assert getattr(config, name).value is True
    config.inplace_pass = False
    assert config.inplace_pass.value is False
    path = config._tree.debug.aclgraph.disable_reinplace_inplaceable_ops_pass
    assert path.value == "1"
    assert config.capture_error_mode.value == "global"
    other = npugraph_ex.CompilerConfig()
    assert config != other
    other.inplace_pass = False
    assert config == other


def test_wrong_options() -> None:
    config = npugraph_ex.CompilerConfig()
    for use in (lambda: config.speed, lambda: setattr(config, "speed", 1)):
        with pytest.raises(ValueError, match="Invalid option 'speed'. The 'CompilerC"):
            use()
    with pytest.raises(ValueError, match=r"not in optional list \[True, False\]"):
        config.inplace_pass = "test"
    with pytest.raises(ValueError, match=r"in optional list \['global'(.|\n)*ERR03005"):
        config.capture_error_mode = "tight"


@pytest.mark.parametrize(
    ("name", "value"),
    [("capture_error_mode", "relaxed"), ("force_recapture", True)],
)
def test_what_has_no_effect_says_so(name, value) -> None:
    with pytest.warns(UserWarning, match=f"{name} has no effect on this host"):
        setattr(npugraph_ex.CompilerConfig(), name, value)


@pytest.mark.parametrize("backend", ["by name", "made"])
def test_backends(backend) -> None:
    given = "npugraph_ex" if backend == "by name" else npugraph_ex.get_npu_backend()
    with torch.no_grad():
        found = torch.compile(model, backend=given, options={"clone_output": True})(
            *INPUTS
        )
    torch.testing.assert_close(found, model(*INPUTS))
    assert anabranch.counters.kernels > 0


@pytest.mark.filterwarnings("ignore")
def test_every_option_of_the_configuration_can_be_given_at_once(
    tmp_path, monkeypatch
) -> None:
    """As the pages of npugraph_ex give them, by name and through compile_fx."""
    monkeypatch.chdir(tmp_path)
    config = npugraph_ex.CompilerConfig()
    names = {n for n in dir(config) if not n.startswith("_")} - {"as_dict", "mode"}
    values = {n: getattr(config, n).default for n in names}
    values |= {"capture_limit": 3, "force_recapture": True, "deadlock_check": True}
    values["data_dump_dir"] = "."
    backend = npugraph_ex.get_npu_backend(compiler_config=config)
    with torch.no_grad():
        found = torch.compile(model, backend=backend, options=values)(*INPUTS)
    torch.testing.assert_close(found, model(*INPUTS))
    assert config.capture_limit.value == "3"
    assert config.force_recapture.value is True
    wrong = {"capture_error_mode": "tight"}
    with pytest.raises(ValueError, match=r"in optional list \['global'"):
        npugraph_ex.compile_fx(
            torch.fx.symbolic_trace(lambda x: x + 1), [torch.ones(2)], wrong
        )


def test_the_backend_keeps_the_configuration() -> None:
    config = npugraph_ex.CompilerConfig()
    backend = npugraph_ex.get_npu_backend(compiler_config=config)
    assert backend.keywords["compiler_config"] is config
    torch.compile(model, backend=backend, options={"capture_limit": 3})(*INPUTS)
    assert config.capture_limit.value == "3"


@pytest.mark.checklist("T017")
def test_compile_fx() -> None:
    def backend(gm, inputs):
        return aot_module_simplified(
            gm,
            inputs,
            fw_compiler=lambda g, i: npugraph_ex.compile_fx(
                g, i, {"remove_noop_ops": False}
            ),
        )

    with torch.no_grad():
        found = torch.compile(model, backend=backend)(*INPUTS)
    torch.testing.assert_close(found, model(*INPUTS))
    assert anabranch.counters.kernels > 0
    gm = torch.fx.symbolic_trace(lambda x: x + 1)
    with pytest.raises(ValueError, match="Invalid option 'speed', allowed options"):
        npugraph_ex.compile_fx(gm, [torch.ones(2)], {"speed": 1})


@pytest.mark.checklist("T116")
def test_custom_pools() -> None:
    errors.reset_warnings()
    good = npugraph_ex.get_npu_backend()
    options = {"use_graph_pool": torch.npu.graph_pool_handle()}
    torch.compile(model, backend=good, options=options)(*INPUTS)
    for wrong in (3, (1, 2), (0, 1, 2), "pool", [0, 1]):
        torch._dynamo.reset()
        run = torch.compile(
            model,
            backend=npugraph_ex.get_npu_backend(),
            options={"use_graph_pool": wrong},
        )
        with pytest.raises(Exception, match="use_custom_pool must be a handle"):
            run(*INPUTS)


def test_cache_compile(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)

    class Cached(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.run = npugraph_ex.inference.cache_compile(self.inner)

        def inner(self, x):
            return x + 1

    assert torch.equal(Cached().run(torch.ones(2)), torch.full((2,), 2.0))
    (folder,) = (tmp_path / ".torchair_cache").iterdir()
    assert folder.name.startswith("Cached_dynamic_aclgraphcache_")


def test_force_eager_compiles_without_captures() -> None:
    """Its results lie in memory of their own, and no capture is counted."""
    options = {"force_eager": True}
    run = torch.compile(torch.sin, backend="npugraph_ex", options=options)
    torch._dynamo.utils.counters["npugraph_ex"].clear()
    with torch.no_grad():
        first = run(torch.ones(3))
        kept = first.clone()
        run(torch.zeros(3))
    assert anabranch.counters.kernels == 1
    assert torch.equal(first, kept)
    torch.testing.assert_close(first, torch.ones(3).sin())
    assert not torch._dynamo.utils.counters["npugraph_ex"]
