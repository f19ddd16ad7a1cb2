"""torch_npu.testing: a test case and helpers of tests for NPUs."""
