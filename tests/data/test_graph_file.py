"""Graphs written to a file and read again."""

import pytest
import torch
from torch_geometric.data import Data

from hpme.data import load_dataset, load_graphs, save_graphs
from hpme.errors import InputError, StorageError
from hpme.storage import read_tensors, write_tensors


def graph(size, edges, **attributes):
    generator = torch.Generator().manual_seed(size)
    edge_index = torch.randint(size, (2, edges), generator=generator)
    return Data(x=torch.rand(size, 3, generator=generator), edge_index=edge_index, **attributes)


def same(a, b):
    assert set(a.keys()) == set(b.keys())
    for name in a.keys():  # noqa: SIM118
        left, right = a[name], b[name]
        assert torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right


def test_all_attributes_come_back(tmp_path):
    graphs = [
        graph(
            size,
            edges,
            edge_attr=torch.rand(edges, 2),
            edge_mask=torch.rand(edges) > 0.5,
            node_mask=torch.rand(size) > 0.5,
            y=torch.tensor([[1.0, 2.0]]),
            name=f"graph ü {size}",
        )
        for size, edges in ((4, 6), (3, 3), (5, 0))
    ]
    save_graphs(tmp_path / "g.safetensors", iter(graphs))
    found = load_graphs(tmp_path / "g.safetensors")
    assert len(found) == 3
    for a, b in zip(graphs, found, strict=True):
        same(a, b)


def test_one_graph_with_as_many_edges_as_nodes(tmp_path):
    one = graph(3, 3, edge_weight=torch.rand(3), node_mask=torch.ones(3).bool(), y=torch.ones(1))
    save_graphs(tmp_path / "g.safetensors", [one])
    tensors, meta = read_tensors(tmp_path / "g.safetensors")
    assert {"edge.edge_weight", "node.node_mask", "node.x", "graph.y"} <= set(tensors)
    assert meta == {"kind": "graphs", "version": 1, "graphs": 1}
    same(one, load_graphs(tmp_path / "g.safetensors")[0])


def test_datasets_of_this_package(tmp_path):
    dataset = load_dataset("ba-2motifs", size=10, root=tmp_path)
    save_graphs(tmp_path / "g.safetensors", dataset)
    for a, b in zip(dataset, load_graphs(tmp_path / "g.safetensors"), strict=True):
        same(a, b)


def test_molecules_with_their_match_tables(tmp_path):
    pytest.importorskip("rdkit", reason="molecules need RDKit: pip install 'hpme[chem]'")
    from hpme.data import from_smiles

    dataset = from_smiles(["CC=O", "CCC", "O=CC=O"], rules={"carbonyl": "[CX3]=O"})
    save_graphs(tmp_path / "g.safetensors", dataset)
    for a, b in zip(dataset, load_graphs(tmp_path / "g.safetensors"), strict=True):
        same(a, b)


def test_what_cannot_be_stored_is_named(tmp_path):
    path = tmp_path / "g.safetensors"
    cases = [
        ([], "no graphs"),
        ([Data(y=torch.ones(1))], "neither z, pos nor num_nodes"),
        ([graph(4, 6, extra=torch.rand(5))], "'extra' has neither"),
        ([graph(4, 6, extra=torch.tensor(1.0))], "'extra' of graph 0"),
        ([graph(4, 6, y=torch.ones(1)), graph(3, 2)], "'y' of graph 1 is none"),
        ([graph(4, 6), graph(3, 2, y=torch.ones(1))], "graph 1 has 'y'"),
    ]
    for graphs, message in cases:
        with pytest.raises(InputError, match=message):
            save_graphs(path, graphs)
    assert not path.exists()


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "g.safetensors"
    save_graphs(path, [graph(4, 6, name="a"), graph(3, 2, name="b")])
    tensors, meta = read_tensors(path)
    changes = {
        "edge_index": torch.full((2, 8), 9),
        "sizes": torch.tensor([8, -1]),
        "edge_counts": torch.tensor([6.0, 2.0]),
        "letters.name": torch.tensor([255, 254], dtype=torch.uint8),
        "node.x": tensors["node.x"][1:],
        "other.thing": torch.zeros(1),
    }
    for name, value in changes.items():
        write_tensors(path, {**tensors, name: value}, meta)
        with pytest.raises(StorageError, match="damaged"):
            load_graphs(path)
    for missing in ("node.x", "sizes", "lengths.name"):
        write_tensors(path, {k: v for k, v in tensors.items() if k != missing}, meta)
        with pytest.raises(StorageError, match="damaged"):
            load_graphs(path)
    write_tensors(path, tensors, {**meta, "graphs": 3})
    with pytest.raises(StorageError, match="header"):
        load_graphs(path)
    write_tensors(path, tensors, {"kind": "target model"})
    with pytest.raises(StorageError, match="holds no graphs"):
        load_graphs(path)
    path.write_bytes(b"nothing")
    with pytest.raises(StorageError):
        load_graphs(path)
    with pytest.raises(StorageError, match="no file"):
        load_graphs(tmp_path / "missing.safetensors")
