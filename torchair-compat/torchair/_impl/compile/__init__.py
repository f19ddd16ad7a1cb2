"""Compiles a Dynamo graph as a CompilerConfig asks."""
