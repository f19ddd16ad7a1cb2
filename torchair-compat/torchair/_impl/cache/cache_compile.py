"""cache_compile with TorchAir's folders, messages and rules for files."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from anabranch import extension
from anabranch.extension import CachedMethod, CachePolicy, code_digest

from ..compile.backend import npu
from ..errors import warn_once
from ..ge.converters import converters_digest
from ..log import logger
from ..options.config import CompilerConfig, raw
from ..options.flat import AnyConfig, apply_options, tree_of
from ..options.flat import CompilerConfig as FlatConfig
from ..options.table import TUNE
from .process_name import process_name

__all__ = ["cache_compile", "cache_compile_flat", "readable_cache"]

INDEX = "compiled_module"
extension.add_index_name(INDEX)
PASSES = ("post_grad_custom_pre_pass", "post_grad_custom_post_pass")
# Options that do not change the saved program.
UNCACHED = (
    ("experimental_config.enable_ref_data", False),
    ("export.export_mode", False),
    ("debug.fx_summary.type", None),
    ("debug.data_dump.type", None),
    ("debug.run_eagerly", False),
    ("dump_config.enable_dump", False),
)

Call = Callable[..., Any]


def cache_compile(
    func: Call,
    *,
    config: AnyConfig | None = None,
    dynamic: bool = True,
    cache_dir: str | None = None,
    global_rank: int | None = None,
    tp_rank: int | None = None,
    pp_rank: int | None = None,
    **kwargs: Any,
) -> Call:
    """A method of a module that one process compiles and later processes load.

    func        a method of an nn.Module
    config      a CompilerConfig; None: the default
    dynamic     whether sizes are symbols from the first call on
    cache_dir   the folder of the caches; None: TorchAir's default
    global_rank, tp_rank, pp_rank  the number of this process in a program of several;
                each has caches of its own
    kwargs      `backend`, `custom_decompositions` and `ge_cache` have an effect; other
                names are ignored

    Returns a function with the method's arguments and results. Raises as
    anabranch.cache_compile does.
    """
    method = extension.check_method(func)
    settings = tree_of(_settings(config, kwargs.get("backend")))
    if cache_dir is not None:
        _check_owner(cache_dir)
    policy = TorchAirPolicy(
        method,
        config=settings,
        dynamic=dynamic,
        root=cache_dir,
        decompositions=kwargs.get("custom_decompositions"),
    )
    policy.ranks = (global_rank, tp_rank, pp_rank)
    policy.ge_cache = bool(kwargs.get("ge_cache", False))
    mode = settings.mode.value
    if policy.ge_cache and mode != TUNE:
        logger.warning_once(
            f"Ge_cache will not take effect when config.mode is set to {mode}."
        )
        policy.ge_cache = False
    return CachedMethod(policy).callable()


def cache_compile_flat(
    func: Call,
    *,
    config: FlatConfig | None = None,
    options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Call:
    """npugraph_ex.inference.cache_compile: cache_compile with a flat configuration.

    options  as `torch.compile(options=...)` has them, for a method without a backend of its
             own; they win over `config`

    ValueError: an option does not exist, or there is a backend beside options.
    """
    has_backend = kwargs.get("backend") is not None
    if options and has_backend:
        raise ValueError("cache_compile: give options to the backend's compiler_config")
    if config is None and not has_backend:
        config = FlatConfig()
    if options and config is not None:
        config = copy.deepcopy(config)
        apply_options(config, options)
    return cache_compile(func, config=config, **kwargs)


def readable_cache(
    cache_bin: str, print_output: bool = True, file: str | None = None
) -> str:
    """The text of a cached function: its graph, inputs, options and code. Arguments and
    errors are those of Anabranch's `readable_cache`."""
    return extension.readable_cache(cache_bin, print_output=print_output, file=file)


def _settings(config: AnyConfig | None, backend: Any) -> AnyConfig:
    keywords = getattr(backend, "keywords", {})
    given = keywords.get("compiler_config")
    if given is None:
        return CompilerConfig() if config is None else config
    if config is not None and given is not config:
        raise ValueError(
            "config in current backend is different from the config during cache"
            " generation."
        )
    return given


def _check_owner(folder: str) -> None:
    if os.path.exists(folder) and os.stat(folder).st_uid != os.geteuid():
        raise ValueError(f"Cache dir {folder} must be owned by the current user ")


class TorchAirPolicy(CachePolicy):
    """TorchAir's folders, messages and rules. Sizes do not choose the entry: a call with
    sizes that the entry does not cover is an error. Its folders have no limit, and the
    user empties them."""

    index = INDEX
    strict = True
    keyed_by_sizes = False
    is_limited = False
    ge_cache = False
    # global_rank, tp_rank and pp_rank of cache_compile
    ranks: tuple[int | None, int | None, int | None] = (None, None, None)

    def settings(self) -> dict[str, Any]:
        local, everywhere = self.config.as_dict()
        known: dict[str, Any] = {**local, **everywhere}
        for name in PASSES:
            function = raw(self.config, name)
            if function is not None:
                known[name] = code_digest(function)
        known["converters"] = converters_digest()
        policy = "inference_config.dynamic_gears_merge_policy"
        known[policy] = str(raw(self.config, policy))
        return {key: str(value) for key, value in known.items()}

    def takes_part(self) -> bool:
        for path, default in UNCACHED:
            if raw(self.config, path) != default:
                warn_once(
                    f"Skip cache as compiler of {self.name} codegen return non-str,"
                    f" config.{path} is set"
                )
                return False
        return True

    def process(self) -> str:
        return process_name(*self.ranks)

    def place(self, key: str) -> str:
        root = self.root or os.environ.get("TORCHAIR_CACHE_HOME")
        root = root or os.path.join(os.getcwd(), ".torchair_cache")
        parts = [root, self._folder_name()]
        if process := self.process():
            parts.append(process)
        return os.path.abspath(os.path.join(*parts, self.method.__func__.__name__))

    def _folder_name(self) -> str:
        module = self.method.__self__
        words = [type(module).__name__, "dynamic" if self.dynamic else "static"]
        if self.config.mode.value != TUNE:
            words.append("aclgraphcache")
        elif self.ge_cache:
            words.append("gecache")
        local, everywhere = self.config.as_dict()
        options = ",".join(f"{k}={v}" for k, v in {**local, **everywhere}.items())
        passes = "".join(
            f",{name}={code_digest(raw(self.config, name))}"
            for name in PASSES
            if raw(self.config, name) is not None
        )
        text = f"{module}{options}{passes}"
        hash_ = hashlib.md5(text.encode(), usedforsecurity=False)
        return "_".join([*words, hash_.hexdigest()])

    def backend(self) -> Call:
        return functools.partial(
            npu,
            compiler_config=self.config,
            custom_decompositions=self.decompositions,
        )

    def blobs(self, package: str) -> dict[str, bytes]:
        """With `ge_cache`, the compiled graph under the graph engine's file names."""
        if not self.ge_cache:
            return {}
        with open(os.path.join(package, "program.bin"), "rb") as file:
            program = file.read()
        key = hashlib.sha256(program).hexdigest()[:16]
        name = f"graph_{key}_{time.strftime('%Y%m%d%H%M%S')}.om"
        row = {"cache_file_name": name, "graph_key": key, "var_desc_file_name": ""}
        index = json.dumps({"cache_file_list": [row]})
        return {name: program, f"graph_{key}.idx": index.encode()}

    def say(self, text: str) -> None:
        logger.info(text)

    def broken(self, path: str, reason: str) -> None:
        logger.warning("Clear broken cache %s as %s", path, reason)

    def skip(self, reason: str) -> None:
        warn_once(f"Skip cache as compiler of {self.name} can't keep it: {reason}")
