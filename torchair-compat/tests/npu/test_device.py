"""PyTorch accepts the device name `npu`; torch.npu has its functions besides streams."""

import copy
import importlib
import json
import mmap
import os
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn

import anabranch
import torch_npu
import torchair
from torchair._impl.device import names

CPU = torch.device("cpu")
NPU = torch.device("npu")


@pytest.mark.parametrize("device", [NPU, torch.device("npu:0"), torch.device("npu", 0)])
def test_a_device_is_a_name_of_the_host_s(device) -> None:
    assert device == CPU
    assert isinstance(device, torch.device)
    made = [
        torch.zeros(2, device=device),
        torch.tensor([1.0, 2.0], device=device),
        torch.ones(2).to(device),
        torch.ones(2).to(device=device, dtype=torch.float64),
        torch.ones(2).new_zeros(2, device=device),
        torch.ones(2).npu(device),
        torch.rand_like(torch.ones(2), device=device),
    ]
    assert all(t.device == CPU and t.is_npu for t in made)
    assert nn.Linear(2, 3, device=device).to(device).weight.device == CPU


def test_devices_that_are_not_there() -> None:
    for wrong in (("npu:1",), ("npu", 3)):
        with pytest.raises(RuntimeError, match="there is one device"):
            torch.device(*wrong)


def test_devices_are_what_they_were() -> None:
    assert torch.device("meta").type == "meta"
    assert torch.device(type="cuda", index=3) == torch.device("cuda:3")
    assert pickle.loads(pickle.dumps(NPU)) == CPU
    assert copy.deepcopy(NPU) == CPU == torch.ones(2).npu().device
    assert not isinstance("cpu", torch.device)
    assert type(CPU).__name__ == "device"
    with pytest.raises(RuntimeError, match="Expected one of cpu"):
        torch.device("nothing")


def test_operators_may_take_devices() -> None:
    @torch.library.custom_op("device_test::make", mutates_args=())
    def make(
        x: torch.Tensor, device: torch.device, other: torch.device | None = None
    ) -> torch.Tensor:
        return x.to(device) + 1

    assert torch.equal(make(torch.zeros(2), torch.device("npu")), torch.ones(2))


def test_default_devices() -> None:
    with NPU:
        assert torch.zeros(2).device == CPU
    with torch.device("npu:0"):
        assert nn.Linear(2, 2).weight.device == CPU
    torch.set_default_device("npu")
    try:
        assert torch.ones(2).device == CPU
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize("compiles", [False, True])
def test_autocast(compiles) -> None:
    def function(x):
        with torch.autocast("npu", dtype=torch.bfloat16):
            y = x @ x
        with torch.autocast(device_type="npu", enabled=False):
            z = x @ x
        return y, z

    x = torch.randn(4, 4)
    backend = torchair.get_npu_backend()
    run = torch.compile(function, backend=backend) if compiles else function
    y, z = run(x)
    assert (y.dtype, z.dtype) == (torch.bfloat16, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(y, x @ x)
    with torch.npu.amp.autocast(dtype=torch.float16):
        assert (x @ x).dtype == torch.float16


def test_generators() -> None:
    numbers = []
    for device in ("npu", NPU, "npu:0", "cpu"):
        made = torch.Generator(device=device).manual_seed(5)
        assert isinstance(made, torch.Generator)
        assert made.device == CPU
        numbers.append(torch.rand(3, generator=made, device="npu"))
    assert all(torch.equal(numbers[0], other) for other in numbers)
    assert isinstance(torch.default_generator, torch.Generator)


def test_loading(tmp_path) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "w.pt")
    for where in ("npu", "npu:0", NPU, {"cpu": "npu:0"}, None):
        found = torch.load(tmp_path / "w.pt", map_location=where)
        assert torch.equal(found["w"], torch.ones(2))


def test_devices_in_a_graph() -> None:
    def function(x):
        return x.to(NPU) + torch.ones(4, device=torch.device("npu"))

    x = torch.randn(4)
    run = torch.compile(function, backend=torchair.get_npu_backend(), fullgraph=True)
    torch.testing.assert_close(run(x), x + 1)


def test_memory() -> None:
    torch.npu.reset_peak_memory_stats()
    before = torch.npu.memory_allocated()
    # New pages: an allocator may give memory that the process has kept.
    block = torch.frombuffer(mmap.mmap(-1, 2**26), dtype=torch.float32).fill_(1)
    assert torch.npu.memory_allocated() - before > 2**25
    assert torch.npu.max_memory_allocated() >= torch.npu.memory_allocated() - 2**20
    assert block.sum() == 2**24
    free, total = torch.npu.mem_get_info()
    assert 0 < free < total == torch.npu.get_device_properties(0).total_memory
    assert torch.npu.memory_stats()["allocated_bytes.all.current"] > 0
    assert "allocated_bytes.all.peak" in torch.npu.memory_summary()


def test_options_without_effect_say_so() -> None:
    with pytest.warns(UserWarning, match="allow_internal_format has no effect"):
        torch.npu.config.allow_internal_format = False
    assert torch.npu.config.allow_internal_format is False
    with pytest.warns(UserWarning, match="set_compile_mode has no effect"):
        torch.npu.set_compile_mode(jit_compile=False)


def test_a_float_of_sizes_is_returned() -> None:
    """Dynamo makes a tensor of it by a function that the alias replaces."""
    compiled = torch.compile(lambda x: 1 / x.shape[0], backend="npu", dynamic=True)
    for rows in (4, 5):
        assert compiled(torch.ones(rows)) == 1 / rows


def layer(x, w):
    y = (x @ w).relu_()
    y[:, 0] = 7.0
    return y.t().contiguous() + 1


@pytest.mark.parametrize("compiles", [False, True])
def test_captured_graphs(compiles) -> None:
    x, w = torch.randn(3, 4), torch.randn(4, 5)
    run = torch.compile(layer, backend="npugraph_ex") if compiles else layer
    captured = torch.npu.NPUGraph()
    with torch.no_grad(), torch.npu.graph(captured, stream=torch.npu.Stream()):
        assert torch.npu.is_current_stream_capturing()
        result = run(x, w)
    torch.testing.assert_close(result, layer(x, w))
    for _ in range(3):
        x.copy_(torch.randn(3, 4))
        captured.replay()
        torch.testing.assert_close(result, layer(x, w))
    assert not torch.npu.is_current_stream_capturing()


def test_captured_graphs_that_are_used_wrongly() -> None:
    empty = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError, match="before a capture"):
        empty.replay()
    with pytest.raises(RuntimeError, match="without capture_begin"):
        empty.capture_end()
    with pytest.raises(RuntimeError, match="auto_dispatch_capture=True"):
        empty.update(cpu_update_input=[{}])


@pytest.mark.parametrize("order", ["pairs", "crossed"])
def test_super_kernel_scopes_of_captures(order) -> None:
    def function(x):
        torch.npu.super_kernel_scope_begin("a")
        y = x + 1
        torch.npu.super_kernel_scope_begin("b")
        y = y.exp()
        torch.npu.super_kernel_scope_end("b" if order == "pairs" else "a")
        y = y * 2
        torch.npu.super_kernel_scope_end("a" if order == "pairs" else "b")
        return y

    x = torch.randn(4)
    with pytest.warns(UserWarning, match="super_kernel_scope_begin has no effect"):
        found = torch.compile(function, backend="npugraph_ex", fullgraph=True)(x)
    torch.testing.assert_close(found, function(x))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("which", ["begin", "end"])
def test_super_kernel_scopes_that_do_not_pair(which) -> None:
    def function(x):
        getattr(torch.npu, f"super_kernel_scope_{which}")("a")
        return x + 1

    text = "no paired call" if which == "begin" else "you must first call"
    with pytest.raises(RuntimeError, match=f"(?s){text}.*test_device.py"):
        torch.compile(function, backend="npugraph_ex", fullgraph=True)(torch.ones(2))


def test_profiles_by_schedule(tmp_path) -> None:
    prof = torch_npu.profiler
    run = torch.compile(lambda x: (x @ x).relu(), backend=torchair.get_npu_backend())
    x = torch.randn(8, 8)
    run(x)
    with pytest.warns(UserWarning, match="experimental_config has no effect"):
        profile = prof.profile(
            activities=[prof.ProfilerActivity.NPU, prof.ProfilerActivity.CPU],
            schedule=prof.schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=0),
            on_trace_ready=prof.tensorboard_trace_handler(str(tmp_path), "me"),
            experimental_config=prof._ExperimentalConfig(
                profiler_level=prof.ProfilerLevel.Level1
            ),
        )
    with profile:
        for _ in range(5):
            run(x)
            profile.step()
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("me_")
    assert folder.name.endswith("_ascend_pt")
    home = folder / "ASCEND_PROFILER_OUTPUT"
    commands = json.loads((home / "trace_view.json").read_text())["traceEvents"]
    calls = [e for e in commands if e.get("cat") == "call"]
    assert len(calls) in (0, 2)
    assert any("mm" in e.get("name", "") for e in commands)
    assert json.loads((home / "torch_trace.json").read_text())["traceEvents"]


def test_profiles_of_everything(tmp_path) -> None:
    run = torch.compile(lambda x: x.exp() + 1, backend=torchair.get_npu_backend())
    run(torch.ones(4))
    with torch_npu.profiler.profile() as profile:
        run(torch.ones(4))
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    assert "exp" in (tmp_path / "trace.json").read_text()
    assert anabranch.counters.kernels > 0


@pytest.mark.parametrize(
    ("calls", "windows"),
    [
        ("start stop step", 1),
        ("start step stop step stop", 1),
        ("step stop start step step stop", 1),
        ("stop step", 0),
        ("start stop start stop step", 2),
    ],
)
def test_steps_outside_of_a_profile_do_nothing(tmp_path, calls, windows) -> None:
    prof = torch_npu.profiler
    profile = prof.profile(
        schedule=prof.schedule(wait=0, warmup=0, active=1, repeat=1, skip_first=0),
        on_trace_ready=prof.tensorboard_trace_handler(str(tmp_path)),
    )
    for call in calls.split():
        getattr(profile, call)()
    assert len(list(tmp_path.iterdir())) == windows


def test_code_for_cuda_runs_here(tmp_path) -> None:
    code = """
import os
import torch, torch_npu
from torch_npu.contrib import transfer_to_npu
assert torch.cuda.is_available() and torch.cuda.device_count() == 1
x = torch.randn(3, device="cuda").cuda().to("cuda:0").to(torch.device("cuda"))
assert x.device.type == "cpu"
with torch.cuda.stream(torch.cuda.Stream()), torch.autocast("cuda", torch.bfloat16):
    assert (x[None] @ x[:, None]).dtype == torch.bfloat16
model = torch.nn.Linear(3, 2).cuda()
torch.cuda.synchronize()
torch.manual_seed(1)
torch.cuda.manual_seed_all(1)
first = torch.rand(2)
torch.cuda.manual_seed(1)
assert torch.equal(first, torch.rand(2))
torch.cuda.seed()


def scaled(x):
    y = model(x)
    if torch.cuda.is_available():
        y = y.cuda() * 2
    with torch.cuda.stream(side):
        z = y.sin()
    torch.cuda.current_stream().wait_stream(side)
    return y + z


side = torch.cuda.Stream()
wanted = model(x) * 2
wanted = wanted + wanted.sin()
for backend in ("npu", "npugraph_ex", "anabranch"):
    torch._dynamo.reset()
    run = torch.compile(scaled, backend=backend, fullgraph=True)
    torch.testing.assert_close(run(x), wanted)
run(x).sum().backward()
assert model.weight.grad is not None
loader = torch.utils.data.DataLoader(list(range(4)), pin_memory=True)
assert len(list(loader)) == 4
meeting = f"file://{os.getcwd()}/meeting"
for given in ("nccl", "cpu:gloo,cuda:nccl"):
    torch.distributed.init_process_group(
        given, init_method=meeting, rank=0, world_size=1
    )
    assert "hccl" in torch.distributed.get_backend()
    torch.distributed.new_group([0], backend="nccl")
    torch.distributed.all_reduce(x)
    torch.distributed.destroy_process_group()
"""
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def device_of_a_rank():
    yield
    names.choose_device(0)


def test_each_rank_has_a_device(device_of_a_rank, monkeypatch) -> None:
    """As torchrun starts ranks, and as a process starts others."""
    with pytest.raises(RuntimeError, match="'npu:1'; there is one device"):
        torch.npu.set_device(1)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert torch.npu.device_count() == 2
    torch.npu.set_device("npu:1")
    assert torch.npu.current_device() == 1
    x = torch.ones(2, device="npu:1")
    run = torch.compile(
        lambda x: x.to("npu:1") + torch.ones(2, device="npu:1"),
        backend=torchair.get_npu_backend(),
        fullgraph=True,
    )
    assert torch.equal(run(x), torch.full((2,), 2.0))
    assert torch.nn.Linear(2, 2).to("npu:1").npu(1).weight.device == torch.device(NPU)
    assert torch.nn.Linear(2, 2).to(1).weight.device == torch.device(NPU)
    assert torch.equal(torch.ones(2, device=1).to(0).to(device=1), torch.ones(2))
    for missing in ("npu:2", 2):
        with pytest.raises(RuntimeError, match="'npu:2'; there are 2 devices"):
            torch.ones(2, device=missing)
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    monkeypatch.setattr(names.multiprocessing, "parent_process", object)
    torch.npu.set_device(3)
    assert torch.ones(2, device="npu:3").sum() == 2


def test_tests_for_npus() -> None:
    """In a process of its own: PyTorch's test case reads the command line. In
    continuous integration it asks for a package that writes XML."""
    script = """
import numpy, torch
from torch_npu.testing.testcase import TestCase, run_tests
from torch_npu.testing.common_utils import SupportedDevices, create_common_tensor
import torch_npu

class Small(TestCase):
    @SupportedDevices(["Ascend910B"])
    def test_near(self):
        one, other = create_common_tensor((numpy.float16, 2, (3, 4)), -1, 1)
        assert one.dtype == torch.float16 and one.min() >= -1 and one.max() <= 1
        self.assertRtolEqual(one, other)
        self.assertRtolEqual([one.float()], [other.float() + 5e-5])
        self.assertRtolEqual(one.numpy(), other.numpy() + numpy.float16(1e-3), prec16=0.1)
        with self.assertRaises(AssertionError):
            self.assertRtolEqual(one.float(), other.float() + 1e-3)

    def test_parts(self):
        one = torch.ones(1000)
        other = one.clone()
        other[:9] = 2
        self.assertRtolEqual(one, other, 1e-2)
        other[:11] = 2
        for changed in (other, one[:3], one.index_fill(0, torch.tensor([1]), float("nan"))):
            with self.assertRaises(AssertionError):
                self.assertRtolEqual(one, changed, 1e-2)
        tops = torch.tensor([float("inf"), float("nan")])
        self.assertRtolEqual(tops, tops)
        with self.assertRaises(AssertionError):
            self.assertRtolEqual(tops, -tops)

    def test_equal(self):
        one = torch.tensor([1, 2])
        self.assertEqual(one, one.int())
        self.assertEqual(one, one + 1, 1)
        self.assertEqual([one, "a"], [one.float() + 5e-6, "a"], "a message")
        self.assertEqual(one.to(torch.float8_e5m2), one)
        for wrong in ((one, one + 1), (one, one[:1]), ("a", "b"), (1.0, 1.1, 0.05)):
            with self.assertRaises(AssertionError):
                self.assertEqual(*wrong)
        with self.assertRaises(AssertionError):
            self.assertEqual(one, one.int(), exact_dtype=True)

run_tests()
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={name: value for name, value in os.environ.items() if name != "CI"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Ran 3 tests" in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr


def test_modules_that_prepared_collectives() -> None:
    experimental = "torchair.ge_concrete_graph.ge_converter.experimental"
    for name in ("patch_for_hcom_allreduce", "hcom_allgather"):
        importlib.import_module(f"{experimental}.{name}")
