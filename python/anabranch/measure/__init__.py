"""Measures packages and models: latency and throughput.

Start with `bench`; docs/measuring.md explains the figures.

bench    benchmarks a package or a model, one row for each shape
subject  finds the package or model to measure
shapes   parses shapes of inputs on the command line
latency  calls a function again and again and times the calls
compare  compares two records
"""
