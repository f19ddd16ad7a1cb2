"""torch_npu.testing: a test case and helpers of tests for NPUs.

Start with `testcase`.

testcase            the base of tests
common_utils        marks of tests, and random tensors
common_distributed  marks of tests of several ranks
decorator           a test for each of several dtypes
"""
