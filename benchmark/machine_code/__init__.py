"""The inner loops of kernels by a processor's scheduling model.

loops      the inner loops of a library of kernels, disassembled
analyser   their cycles, by llvm-mca
table      the best loop of each kernel, as a share of the core's peak"""
