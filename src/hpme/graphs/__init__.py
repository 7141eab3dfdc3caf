"""Flat tensors that everything runs on: graphs in a store, batches, pairs, ego graphs."""

from hpme.graphs.batch import GraphBatch
from hpme.graphs.edges import Pairs
from hpme.graphs.store import Graphs, GraphStore

__all__ = ["GraphBatch", "GraphStore", "Graphs", "Pairs"]
