"""Graphs: datasets with ground truth, and collections of graphs as flat tensors."""

from hpme.data.batch import GraphBatch, GraphStore
from hpme.data.dataset import GraphDataset
from hpme.data.info import DatasetInfo
from hpme.data.registry import DATASETS, load_dataset
from hpme.data.smiles import SkippedRow, SmilesDataset, from_smiles, from_smiles_csv

__all__ = [
    "DATASETS",
    "DatasetInfo",
    "GraphBatch",
    "GraphDataset",
    "GraphStore",
    "SkippedRow",
    "SmilesDataset",
    "from_smiles",
    "from_smiles_csv",
    "load_dataset",
]
