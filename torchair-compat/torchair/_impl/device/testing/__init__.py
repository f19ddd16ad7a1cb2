"""torch_npu.testing: what tests for NPUs are written with."""
