"""Traces: what ran when, and the page that shows it.

Start with `profiler`; docs/design/trace.md describes the events.

profiler       starts and ends a trace
trace_file     reads a trace file and checks it
critical_path  finds what a call waited for
page           makes one HTML page of a trace
"""
