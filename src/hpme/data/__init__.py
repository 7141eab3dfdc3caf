"""Graphs: datasets with ground truth, and collections of graphs as flat tensors."""

from hpme.data.dataset import GraphDataset as GraphDataset
from hpme.data.graph_file import load_graphs as load_graphs
from hpme.data.graph_file import save_graphs as save_graphs
from hpme.data.info import DatasetInfo as DatasetInfo
from hpme.data.links import LinkDataset as LinkDataset
from hpme.data.molecules.columns import SkippedRow as SkippedRow
from hpme.data.molecules.smiles import SmilesDataset as SmilesDataset
from hpme.data.molecules.smiles import from_smiles as from_smiles
from hpme.data.molecules.smiles import from_smiles_csv as from_smiles_csv
from hpme.data.nodes import NodeDataset as NodeDataset
from hpme.data.registry import DATASETS as DATASETS
from hpme.data.registry import load_dataset as load_dataset
from hpme.graphs import GraphBatch as GraphBatch
from hpme.graphs import GraphStore as GraphStore
from hpme.graphs.ego import WholeGraph as WholeGraph
from hpme.graphs.enclosing import enclosing_subgraph as enclosing_subgraph
