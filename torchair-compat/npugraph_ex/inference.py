"""npugraph_ex.inference: methods that one process compiles and later processes load."""

from torchair._impl.cache.cache_compile import cache_compile_flat as cache_compile
from torchair._impl.cache.cache_compile import readable_cache

__all__ = ["cache_compile", "readable_cache"]
