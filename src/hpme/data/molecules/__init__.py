"""Molecules: SMILES to graphs, and the published molecule datasets."""
