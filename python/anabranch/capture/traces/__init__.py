"""What a trace is told before it begins, and what it is spared. Start with
`known_results`.

known_results     the results of a graph, so that PyTorch does not run it to find them
rare_collections  few collections of garbage while a frame is compiled
storage_offsets   where tensors begin in their memory
"""
