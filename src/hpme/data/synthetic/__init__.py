"""Planted motifs: generators of the synthetic graph datasets."""
