"""Tells users what ran: measures a model's first calls, and says what makes them slow.

Start with `first_calls`; docs/debugging.md, "Notices", says when a line is printed.

first_calls  times the first calls of a program, and says what PyTorch ran
cut_graphs   the same for a graph that is cut into several programs
dynamo       where Dynamo broke the model's graph, and what its guards cost
"""
