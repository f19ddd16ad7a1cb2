"""Traces: what ran when, and the page that shows it."""
