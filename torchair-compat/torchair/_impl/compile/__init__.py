"""From a Dynamo graph and a CompilerConfig to what runs it."""
