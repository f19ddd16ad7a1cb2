"""How the weights of a language model become integers of 8 or 4 bits.

Start with `weight_fits`.

weight_fits       rounds one weight, and fits scales and offsets of groups of columns
group_lines       the line of each group, on which integers stand for weights
layer_inputs      what layers read, measured over a text
output_gradients  how much the model's results depend on each layer's
error_feedback    rounds one column after the other and corrects the next ones
"""
