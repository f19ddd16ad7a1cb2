"""Kernels by a model of a processor that is not here.

loops      the inner loops of a library of kernels, disassembled
analyser   their cycles, by llvm-mca
caller     a process that calls a kernel for the trace
trace      what tiles of a kernel run, step by step
timing     what each instruction needs: registers, ports, cycles
caches     which cache has a line, and when it arrives
core       cycles of a trace on an out-of-order core
table      the best loop of each kernel, and whole tiles, as shares of the core's peak"""
