"""The implementation of torchair. Its public modules only forward to this package.

Start with `compile/`. `test/repo/test_compat_arrows.py` says which wing may import which.

compile/      compiles a Dynamo graph as a CompilerConfig asks
options/      the options of CompilerConfig
marks/        scopes, events and printing in a graph
operators/    the operators of torch_npu
surface/      every other name of torch_npu and torch.npu, in one table
ge/           converters of operators, and the IR nodes that they make
kernels/      static kernels
cache/        methods that later processes load
dump/         graphs, values, tables and logs for people to read
collectives/  collectives that Dynamo does not trace by itself
device/       the name `npu` in PyTorch, and torch.npu
errors        exceptions with TorchAir's error line
log           the logger of torchair.core.utils
public_names  gives public functions the names of their public modules
"""
