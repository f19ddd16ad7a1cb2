"""Computes `nn.LSTM`, `nn.GRU` and `nn.RNN` by a loop over time. Start with `layers`.

operators         the operators of recurrent layers, and the shapes of their results
tracing           has a trace take these layers in
layers            takes an operator apart: layers, directions, and their loops
cells             what one trip of a loop computes
packed_sequences  packs and pads sequences, in a trace
packed_layers     has a trace take packed sequences in
packed_places     where the rows of packed sequences lie
"""
