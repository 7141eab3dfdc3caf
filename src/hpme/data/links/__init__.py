"""Link prediction by enclosing subgraphs."""
