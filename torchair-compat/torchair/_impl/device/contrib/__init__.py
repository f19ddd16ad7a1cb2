"""torch_npu.contrib.

Start with `transfer_to_npu`.

transfer_to_npu  makes `cuda` a name of the NPU too
"""
