"""How the pool is found: hard mixes, what makes a pool good, and the searches themselves."""
