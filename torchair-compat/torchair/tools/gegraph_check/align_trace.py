"""align_trace_json: moves the begin of a trace to time 0."""

from ..._impl.dump.deadlock import align_trace_json

__all__ = ["align_trace_json"]
