"""Takes the layers of torch.ao's `quantize_dynamic` into graphs. Start with `modules`.

modules    what a trace reads in the place of these layers
versions   numbers that change with the weights of a layer
operators  recurrent layers with weights of bytes, as operators
products   rounds the rows of a product to bytes, and multiplies bytes
"""
