"""Measures packages and models: latency and throughput."""
