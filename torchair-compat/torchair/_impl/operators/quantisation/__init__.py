"""Quantises activations; dequantises sums of integers."""
