"""Compiled graphs that PyTorch saves: torch.compile(...).aot_compile, its caches.

Start with `graph`; docs/design/saved.md has the rules.

saving          whether PyTorch saves what is compiled now
keys            lets AOTAutograd save what it compiles, and find it again
graph           the artefact that PyTorch pickles: SavedGraph
program         a compiled graph with the files of its package
pytorch_graph   a graph that PyTorch runs, with programs as parts
weights         programs for the frozen weights that calls pass
seal            refuses artefacts of another version or processor
"""
