"""From an ATen graph to the description that the compiler reads."""
