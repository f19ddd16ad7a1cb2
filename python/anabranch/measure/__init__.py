"""How fast a package or a model is, and which blockings make it faster."""
