"""The options of npugraph_ex, as torchair has them."""

from .._impl.options.flat import process_kwargs_options as _process_kwargs_options

__all__ = ["_process_kwargs_options"]
