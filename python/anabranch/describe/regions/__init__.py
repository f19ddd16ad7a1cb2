"""Describes what a program runs as regions: subgraphs, and what follows a size that the
run decides. docs/design/regions.md. Start with `calls`.

calls         subgraphs that operators run
continuation  what reads sizes that the run decides, as a region
run_numbers   numbers that the run decides, as tensors of one element
run_slices    sizes of slices whose bounds the run decides
updated       arguments that regions update where they lie
"""
