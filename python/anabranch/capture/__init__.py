"""Captures graphs: from a Dynamo graph to ATen graphs, cut around operators that have
no description."""
