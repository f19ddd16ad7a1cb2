"""A front end's decisions on the entry of one method: its folder, its dependencies,
and the messages about it."""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..marks.gear_sizes import gears_of
from ..packages import cache

Call = Callable[..., Any]


class CachePolicy:
    """The policy of `anabranch.cache_compile`. A front end with another interface derives
    from it and overrides attributes and methods.

    method          the method of an nn.Module (`check_method`)
    config          the options
    dynamic         as of torch.compile
    root            the folder of the entries; None: Anabranch's own cache
    process         the name of this process in a program of several; None: its rank in
                    torch.distributed
    decompositions  functions by operator
    """

    # the name of an entry's index
    index = "entry.json"
    # Whether sizes of arguments choose the entry. If not, a call of other sizes reads
    # the same entry.
    keyed_by_sizes = True
    # whether the first call compares sizes and strides with those of the trace
    strict = False
    # Whether the process that compiled the method replays the entry, too, once it is
    # saved. Its later calls then have none of Dynamo's guards, and other sizes are an
    # error as they are in later processes.
    replays_at_once = False
    # whether ANABRANCH_CACHE_BYTES limits the folder of the entries
    is_limited = True

    def __init__(
        self,
        method: types.MethodType,
        *,
        config: Any,
        dynamic: bool = True,
        root: str | None = None,
        process: str | None = None,
        decompositions: Mapping[Any, Call] | None = None,
    ) -> None:
        self.method = method
        self.config = config
        self.dynamic = dynamic
        self.root = root
        self.decompositions = dict(decompositions or {})
        self.name = method.__func__.__qualname__
        self._process = process

    # Where the entry is, and what it depends on

    def takes_part(self) -> bool:
        """Whether the method uses the cache."""
        return cache.takes_part(self.config)

    def place(self, key: str) -> str:
        """The entry's folder; empty without a cache."""
        root = self.root or cache.folder()
        return cache.entry_folder(root, cache.FUNCTIONS, key) if root else ""

    def settings(self) -> Mapping[str, Any]:
        """The fields of the configuration that the result depends on."""
        return {
            key: value
            for key, value in self.config.as_dict().items()
            if key not in cache.WATCHING
        }

    def process(self) -> str:
        """The name of this process in a program of several: each has entries of its own.
        Empty for a process by itself."""
        if self._process is not None:
            return self._process
        group = torch.distributed
        if not group.is_available() or not group.is_initialized():
            return ""
        size = group.get_world_size()
        return f"{group.get_rank()} of {size}" if size > 1 else ""

    def shapes_key(self, args: Any, kwargs: Any) -> Any:
        """The sizes and gears of the arguments, for the key: static graphs of other sizes
        are other entries."""
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        gears = [gears_of(t) for t in tensors]
        geared = [sorted(g.items()) for g in gears] if any(gears) else []
        if not self.keyed_by_sizes:
            return geared
        shapes = [
            [str(t.dtype), t.dim(), None if self.dynamic else [*t.shape, *t.stride()]]
            for t in tensors
        ]
        return [shapes, geared]

    # How the method is compiled, and what the entry has besides

    def backend(self) -> Call:
        """The backend of torch.compile."""
        from ..backend import anabranch

        return functools.partial(
            anabranch, config=self.config, decompositions=self.decompositions
        )

    def blobs(self, package: str) -> dict[str, bytes]:
        """More files for the entry, by name. `package` is the folder of the package."""
        return {}

    # Messages

    def say(self, text: str) -> None:
        """Gets messages about the entry. A front end may print them."""

    def broken(self, path: str, reason: str) -> None:
        """The entry at this path is removed."""
        self.say(f"Clear broken cache {path} as {reason}")

    def skip(self, reason: str) -> None:
        """The compilation cannot be saved."""
        cache.warn_once(
            f"skip {self.name}", f"Skip cache as {self.name} can't be: {reason}"
        )

    def outgrown(self) -> bool:
        """The method has to be compiled again for arguments that the entry does not
        cover. Returns whether the entry is removed."""
        warnings.warn(
            f"Skip cache as {self.name} recompiled, set"
            " torch._logging.set_logs(recompiles=True) for details",
            stacklevel=2,
        )
        return True
