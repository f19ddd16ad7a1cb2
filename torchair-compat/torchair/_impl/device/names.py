"""Makes `npu` a name wherever PyTorch itself reads the name of a device:
torch.device("npu"), torch.autocast("npu"), torch.Generator("npu"),
torch.load(map_location="npu").

Each of these is replaced by a callable that translates the name to the host's device.
docs/design/npu.md says why `npu` is no device type of PyTorch's."""

from __future__ import annotations

import functools
import multiprocessing
import os
import re
from types import ModuleType
from typing import Any

import torch
import torch.amp.autocast_mode
from torch._dynamo.eval_frame import skip_code

__all__ = [
    "HOST",
    "add_name",
    "choose_device",
    "choose_name",
    "chosen_name",
    "current_device",
    "device_count",
    "host_device",
    "install",
    "is_npu",
]

HOST = torch.device("cpu")
_NAME = "npu"
# Code for this processor uses the formats and operators that this package has most of.
_DEFAULT = "Ascend910_9391"
_names = {_NAME}
_current = [0]  # the number of this process's device
_chosen: list[str] = []  # the name that set_device_name chose


def add_name(name: str) -> None:
    """Makes this a name of the NPU too."""
    _names.add(name)


def is_npu(device: Any) -> bool:
    """Whether this is a name of the NPU, with any number after it."""
    return isinstance(device, str) and device.startswith(tuple(_names))


def host_device(device: Any = None) -> Any:
    """Translates a name of the NPU to the host's device; returns anything else
    unchanged. RuntimeError: there is no NPU with this number."""
    if device is None or (isinstance(device, int) and not isinstance(device, bool)):
        device = f"npu:{device or 0}"
    if not is_npu(device):
        return device
    number = _number(device)
    if number > 0 and number >= device_count():
        raise _no_such_device(device)
    return HOST


def device_count() -> int:
    """One device for each rank on this host, as far as this process knows them:
    LOCAL_WORLD_SIZE, the ranks of its process group, and its own choice."""
    given = os.environ.get("LOCAL_WORLD_SIZE", "1")
    known = [int(given) if given.isdigit() else 1, _current[0] + 1]
    group = torch.distributed
    if group.is_available() and group.is_initialized():
        known.append(group.get_world_size())
    return max(known)


def current_device() -> int:
    return _current[0]


def choose_device(device: Any) -> None:
    """Gives this process the device of this name or number. A process of several may
    choose any. RuntimeError: there is no such device."""
    if isinstance(device, int):
        device = f"npu:{device}"
    if not is_npu(device):
        return
    number = _number(device)
    is_rank = "WORLD_SIZE" in os.environ or multiprocessing.parent_process() is not None
    if number >= device_count() and not is_rank:
        raise _no_such_device(device)
    _current[0] = number


def choose_name(name: str) -> None:
    """Makes this the name of the NPU that the host says it is."""
    _chosen[:] = [name]


def chosen_name() -> str:
    """The name of the NPU that the host says it is."""
    return _chosen[0] if _chosen else os.environ.get("ANABRANCH_NPU_NAME", _DEFAULT)


def _number(name: str) -> int:
    found = re.fullmatch(r"(\w+?)(?::(\d+))?", name)
    if found is None or found[1] not in _names:
        raise RuntimeError(f"Invalid device string: '{name}'")
    return int(found[2] or 0)


def _no_such_device(name: str) -> RuntimeError:
    count = device_count()
    there = "there is one device" if count == 1 else f"there are {count} devices"
    return RuntimeError(f"invalid device ordinal: {name!r}; {there}")


def install(module: ModuleType) -> None:
    """Makes `module` torch.npu."""
    torch.npu = module  # type: ignore[attr-defined]
    _install_autocast()
    torch.device = _standing_for(torch.device)  # type: ignore[misc]
    torch.Generator = _standing_for(torch.Generator)  # type: ignore[misc]
    torch.load = _translating_load(torch.load)


def _standing_for(base: Any) -> Any:
    """A class that replaces one of PyTorch's whose first argument is a device. It makes
    objects of PyTorch's class, and they are its instances."""

    class Meta(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, base)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, base)

        def __eq__(cls, other: object) -> bool:
            """Equal to PyTorch's class, so that tables with that class as key find it."""
            return other is cls or other is base

        def __hash__(cls) -> int:
            return hash(base)

        def __getattr__(cls, name: str) -> Any:
            return getattr(base, name)

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            first = args[0] if args else next(iter(kwargs.values()), None)
            if is_npu(first):
                index = kwargs.get("index", args[1] if len(args) > 1 else None)
                return base(host_device(first if index is None else f"{first}:{index}"))
            return base(*args, **kwargs)

    names = {"__doc__": base.__doc__, "__module__": "torch"}
    return Meta(base.__name__, (), names)


def _install_autocast() -> None:
    autocast = torch.amp.autocast_mode.autocast
    original = autocast.__init__

    @functools.wraps(original)
    def init(
        self: Any, device_type: str, dtype: Any = None, *more: Any, **kw: Any
    ) -> None:
        if device_type in _names:
            device_type = HOST.type
            dtype = torch.float16 if dtype is None else dtype
        original(self, device_type, dtype, *more, **kw)

    # Dynamo knows autocast by its class. After a graph break Python enters it again, and
    # Dynamo must not take this function for the user's.
    skip_code(init.__code__)  # type: ignore[attr-defined]
    autocast.__init__ = init


def _translating_load(load: Any) -> Any:
    @functools.wraps(load)
    def call(f: Any, map_location: Any = None, *more: Any, **kwargs: Any) -> Any:
        if is_npu(map_location):
            map_location = host_device(map_location)
        elif isinstance(map_location, dict):
            map_location = {
                key: str(host_device(value)) if is_npu(value) else value
                for key, value in map_location.items()
            }
        return load(f, map_location, *more, **kwargs)

    return call
