"""How the pool is found: hosts, hard mixes, what makes a pool good, and the searches themselves."""
