"""What users mark in a model: streams, events, super kernels; checked together."""
