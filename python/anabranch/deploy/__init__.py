"""Packages that run without PyTorch: writes, opens and calls them.

Start with `export` and `load`; docs/design/deploy.md says what a package promises. All
modules but the two of export run without PyTorch.

export            anabranch.export: writes a package
exported_program  makes the backend's graph of an ExportedProgram
load              anabranch.load: opens a package
array_package     calls a package with NumPy arrays, and keeps its state
arrays            passes NumPy arrays to programs and back
signature         names and nesting of a package's arguments and results
trees             nested arguments and results as JSON
"""
