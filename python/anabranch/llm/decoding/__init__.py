"""The decoding loop of plain calls of generate(), and the masks of its steps.

Start with `decoding_loop`.

decoding_loop  the loop: greedy or sampled, one answer a row
look_ahead     masks and positions of many tokens, made at once
step_masks     the masks of one step as a model takes them
"""
