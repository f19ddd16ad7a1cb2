"""Names of torch_npu and torch.npu that public code uses beside operators and streams.

Start with `table`, which says of each what it does here.

table      the names: what works, what has no effect, what is refused and why
publish    puts the names of the table into their modules
memory     pools, snapshots and weak references: host memory
hardware   the NPU that this host says it is
marks      ranges of a profile
extension  torch_npu.utils.cpp_extension: builds host extensions
processes  the options of groups of processes
hifloat8   tensors that keep bytes of hifloat8
captured   packs of values that serving code patches
"""
