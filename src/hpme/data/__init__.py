"""Graphs: datasets with ground truth, and collections of graphs as flat tensors."""

from hpme.data.dataset import GraphDataset
from hpme.data.graph_file import load_graphs, save_graphs
from hpme.data.info import DatasetInfo
from hpme.data.links import LinkDataset
from hpme.data.molecules.columns import SkippedRow
from hpme.data.molecules.smiles import SmilesDataset, from_smiles, from_smiles_csv
from hpme.data.nodes import NodeDataset
from hpme.data.registry import DATASETS, load_dataset
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.ego import WholeGraph
from hpme.graphs.enclosing import enclosing_subgraph

__all__ = [
    "DATASETS",
    "DatasetInfo",
    "GraphBatch",
    "GraphDataset",
    "GraphStore",
    "LinkDataset",
    "NodeDataset",
    "SkippedRow",
    "SmilesDataset",
    "WholeGraph",
    "enclosing_subgraph",
    "from_smiles",
    "from_smiles_csv",
    "load_dataset",
    "load_graphs",
    "save_graphs",
]
