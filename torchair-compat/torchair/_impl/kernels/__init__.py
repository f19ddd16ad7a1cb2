"""Static kernels: a graph compiled for the shapes of its first call."""
