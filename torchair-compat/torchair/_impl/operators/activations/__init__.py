"""Activations and gates."""
