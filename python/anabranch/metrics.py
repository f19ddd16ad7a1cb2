"""Counts of compilations and times of calls of this process, for a monitoring system.

The module has the method `collect()` of a collector of Prometheus' Python client, and
does not import the client:

    prometheus_client.REGISTRY.register(anabranch.metrics)

`text()` gives the same metrics in Prometheus' text format. The first use of either
function begins the timing of calls. docs/containers.md lists the metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from . import _C
from .report import counters

# What each field of `report.counters` counts. A metric has the field's name between
# "anabranch_" and "_total".
COUNTED = {
    "graphs": "Graphs that Anabranch compiled",
    "compiles": "Graphs that were compiled and not taken from the cache",
    "cache_hits": "Graphs that were taken from the cache",
    "kernels": "Different kernels in these graphs",
    "launches": "Kernel launches in one call of each graph",
    "fallback_calls": "Calls of PyTorch's operators in one call of each graph",
    "eager_graphs": "Whole graphs that PyTorch runs",
    "loaded": "Graphs from artefacts that PyTorch saved",
    "repacked": "Programs whose weights changed and were packed again",
    "specialised": "Programs made in the background for sizes that came",
}
_CALLS = "anabranch_call_seconds"


class Sample(NamedTuple):
    """One number of a metric. The last three fields are those that Prometheus' client
    expects; they stay None."""

    name: str
    labels: dict[str, str]
    value: float
    timestamp: None = None
    exemplar: None = None
    native_histogram: None = None


class Metric(NamedTuple):
    """A metric and its samples; `type` is "counter" or "histogram". Times are in
    seconds."""

    name: str
    documentation: str
    type: str
    samples: list[Sample]
    unit: str = ""


def collect() -> Iterator[Metric]:
    """The current metrics: counters of compilations, then the histogram of call times."""
    _C.time_calls()
    for field, about in COUNTED.items():
        name = f"anabranch_{field}"
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
    """The current metrics in Prometheus' text format, version 0.0.4."""
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
