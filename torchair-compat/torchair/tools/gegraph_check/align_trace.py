"""align_trace_json of the traces of graphs."""

from ..._impl.dump.deadlock import align_trace_json

__all__ = ["align_trace_json"]
