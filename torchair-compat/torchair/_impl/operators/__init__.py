"""The operators of torch_npu, a folder for each subject.

Start with `definition`: `@npu_operator` above a function is all that an operator needs.
A folder of this wing needs no list of its own.

definition     defines operators: @npu_operator
schema         the schema of an operator, from the signature of its function
result_forms   finds the forms of results once for equal layers
traced_parts   copies the nodes of an operator's parts for equal layers
checks         checks of arguments, and the texts of their errors
element_types  the numbers by which operators name dtypes
published      all operators (generated)
activations/   activations and gates
attention/     attention of prompts and new tokens, and for training code
boost/         the operators of the transformer boost library, torch.ops.atb
boxes/         boxes of detection models
caches/        writes into caches, reads their pages
delta/         gated delta rules
exchanges/     products joined to exchanges among ranks
latent/        the steps before latent attention
memory/        formats of memory, and operators with an effect instead of a result
norms/         norms, and operators that are joined to one
plain/         operators of older models: those of PyTorch by other names, and ranges
positions/     rotary embeddings
products/      products of integers, of small floats, of few-bit weights, and of groups
quantisation/  quantises activations, dequantises sums of integers
residuals/     residual streams that layers mix
routing/       experts: chooses them, orders rows by them, sends rows to their ranks
sampling/      filters logits, and chooses tokens
sparse/        chooses few keys, and attends to them alone
"""
