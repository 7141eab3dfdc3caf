"""Graphs: datasets with ground truth, and collections of graphs as flat tensors."""

from hpme.data.batch import GraphBatch, GraphStore
from hpme.data.dataset import GraphDataset
from hpme.data.ego import EgoGraphs, WholeGraph
from hpme.data.enclosing import enclosing_subgraph
from hpme.data.graph_file import load_graphs, save_graphs
from hpme.data.info import DatasetInfo
from hpme.data.links import LinkDataset
from hpme.data.node_dataset import NodeDataset
from hpme.data.registry import DATASETS, load_dataset
from hpme.data.smiles import SkippedRow, SmilesDataset, from_smiles, from_smiles_csv

__all__ = [
    "DATASETS",
    "DatasetInfo",
    "EgoGraphs",
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
