"""Static kernels: what is compiled for the shapes of a first call."""
