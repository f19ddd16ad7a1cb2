"""What this process compiled and how long its calls take, for a monitor to read.

`collect()` gives what Prometheus' Python client asks of a collector, without a need
for it:

    prometheus_client.REGISTRY.register(anabranch.metrics)

`text()` is the same as the text that a Prometheus server reads. Calls are timed from
the first use of either on; docs/containers.md lists the metrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from . import _C
from .report import counters

# Names without "anabranch_" and "_total"; the field of the counters; what it counts.
_COUNTERS = (
    ("compiles", "compiles", "Graphs that were compiled."),
    ("cache_hits", "cache_hits", "Graphs that came from the cache."),
    ("fallback_operators", "fallback_calls", "Operators that PyTorch runs, by graph."),
    ("eager_graphs", "eager_graphs", "Graphs that PyTorch runs as a whole."),
    ("specialised", "specialised", "Programs made for sizes that came."),
    ("repacked", "repacked", "Programs made again for frozen weights that changed."),
)
_CALLS = "anabranch_call_seconds"


class Sample(NamedTuple):
    """One number. The last three fields are there for Prometheus' client."""

    name: str
    labels: dict[str, str]
    value: float
    timestamp: None = None
    exemplar: None = None
    native_histogram: None = None


class Metric(NamedTuple):
    """A family of samples; `type` is "counter" or "histogram"."""

    name: str
    documentation: str
    type: str
    samples: list[Sample]
    unit: str = ""


def collect() -> Iterator[Metric]:
    """The metrics as they are now."""
    _C.time_calls()
    for short, field, about in _COUNTERS:
        name = f"anabranch_{short}"
        samples = [Sample(f"{name}_total", {}, float(getattr(counters, field)))]
        yield Metric(name, about, "counter", samples)
    yield Metric(_CALLS, "Seconds that calls of programs took.", "histogram", _calls())


def _calls() -> list[Sample]:
    buckets, seconds = _C.call_times()
    samples, below = [], 0
    for end, count in buckets:
        below += count
        samples.append(Sample(f"{_CALLS}_bucket", {"le": _number(end)}, float(below)))
    samples.append(Sample(f"{_CALLS}_count", {}, float(below)))
    samples.append(Sample(f"{_CALLS}_sum", {}, seconds))
    return samples


def _number(value: float) -> str:
    return "+Inf" if value == float("inf") else repr(value)


def text() -> str:
    """The metrics in Prometheus' text format, version 0.0.4."""
    lines = []
    for metric in collect():
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        lines += [
            f"# HELP {name} {metric.documentation}",
            f"# TYPE {name} {metric.type}",
        ]
        for sample in metric.samples:
            labels = ",".join(
                f'{key}="{value}"' for key, value in sample.labels.items()
            )
            lines.append(
                f"{sample.name}{{{labels}}} {sample.value}"
                if labels
                else f"{sample.name} {sample.value}"
            )
    return "\n".join(lines) + "\n"
