"""Static kernels: compiles a graph for the shapes of its first call."""
