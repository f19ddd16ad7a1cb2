"""The name `npu` in PyTorch, and torch.npu.

Start with `install`, then `npu`.

install         adds torch.npu, `.npu()` and device="npu" to PyTorch
alias           makes `npu` an alias of the host's device
names           makes `npu` a name wherever PyTorch reads the name of a device
npu             torch.npu: the host as a device
traced_streams  streams of torch.npu under Dynamo
traced_floats   keeps floats of a model constant until they change
tape            torch.npu.NPUGraph: runs captured operators again
graphed         torch.npu.make_graphed_callables
memory          memory as torch.npu counts it
pointers        tensors over addresses of the host's memory
products        products of operands of different dtypes
indices         indices of int32
profiler        torch_npu.profiler
distributed     torch_npu.distributed
hccl            makes "hccl" a name of gloo
real            refuses to replace a real torch_npu
contrib/        torch_npu.contrib
testing/        torch_npu.testing
"""
