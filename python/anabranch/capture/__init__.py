"""From a Dynamo graph to ATen graphs, and around what has no description."""
