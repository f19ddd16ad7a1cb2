"""Modules that prepared collectives for graphs. There is nothing to prepare here."""
