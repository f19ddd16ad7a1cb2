"""Decomposes operators in other ways than PyTorch does, so that the compiler sees what it
has kernels for. Each module has `decompositions()`, which `aot` adds to its table. Start
with `identity`.

bags                decomposes sums of bags of rows of a table
bessel              decomposes the modified Bessel functions of the first kind
checks              decomposes losses and pools with checks of values
distances           decomposes the distances between rows of matrices
formulas            what formulas of one argument share
histograms          decomposes histograms of several dimensions
identity            decomposes torch.eye
interpolation       decomposes linear interpolation
quantized_values    decomposes the operators of PT2E's quantised graphs
refusals            finds calls that eager PyTorch refuses, decomposed or not
refused_calls       says which calls of operators eager PyTorch refuses
refused_writes      finds writes that eager PyTorch refuses
special_functions   decomposes erfinv, and the functions of the gamma function
weight_only         decomposes PyTorch's weight-only quantised products
scaled_products     decomposes the product of floats of eight bits with scales
selections          decomposes masks among other indices, and sums by a mask
tensor_lists        decomposes operators of lists of tensors
transformer_layers  decomposes PyTorch's own layers of transformers
windows             decomposes the gradients of windows of a tensor
"""
