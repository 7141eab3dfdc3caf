"""Datasets of graphs with several types of nodes and edges."""
