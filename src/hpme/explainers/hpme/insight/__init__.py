"""Beyond one graph: what the model has learned, what would change its answer, whether it cheats."""
