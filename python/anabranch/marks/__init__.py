"""What users mark in a model (streams, events, super kernels, gears), and whether the
marks of one graph fit together."""
