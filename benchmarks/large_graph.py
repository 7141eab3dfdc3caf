"""What it costs to explain nodes of a large graph: CPU seconds and peak memory, on one thread.

    python benchmarks/large_graph.py [--edges 1000000] [--nodes 1000] [--degree 5] [--skew 0.0]
        [--neighbors 10,10,10] [--names hpme] [--json FILE]

The graph is random with five directed edges per node; with ``--skew`` some nodes are hubs (ends
are drawn with probability proportional to the node's number to the power of minus skew). The model
is an untrained NodeGCN, since cost does not depend on its weights. Each explainer is fitted on a
tenth of the nodes and explains all of them, in a process of its own. Peak memory includes the
libraries and the graph, whose size the line "graph" shows. With ``--neighbors`` so many neighbours
of a node are followed for each hop.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from hpme.bench.run import peak_mib, reset_peak
from hpme.explainers import explainer_class
from hpme.models import build_model

FEATURES, CLASSES = 16, 4
OPTIONS: dict[str, dict[str, Any]] = {
    "graph": {},
    "grad": {},
    "pgexplainer": {"epochs": 30},
    "hpme": {"k": 8},
}


def random_graph(edges: int, degree: int, skew: float, generator: torch.Generator) -> Data:
    size = edges // degree
    weight = torch.arange(1, size + 1).double() ** -skew
    ends = torch.searchsorted(
        weight.cumsum(0) / weight.sum(),
        torch.rand(2, edges // 2, dtype=torch.double, generator=generator),
    ).clamp(max=size - 1)
    index = to_undirected(ends[:, ends[0] != ends[1]], num_nodes=size)
    return Data(x=torch.randn(size, FEATURES, generator=generator), edge_index=index)


def measure(
    name: str, edges: int, nodes: int, degree: int, skew: float, neighbors: str | None
) -> dict[str, float | str]:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    data = random_graph(edges, degree, skew, generator)
    model = build_model("node-gcn", FEATURES, CLASSES)
    chosen = torch.randperm(len(data.x), generator=generator)[:nodes]
    reset_peak()
    row: dict[str, float | str] = {"explainer": name, "fit [CPU s]": 0.0, "explain [CPU s]": 0.0}
    if name != "graph":
        most = None if neighbors is None else [int(part) for part in neighbors.split(",")]
        explainer = explainer_class(name)(**OPTIONS[name], num_neighbors=most)
        start = time.process_time()
        explainer.fit(model, data, index=chosen[: max(1, nodes // 10)])
        fitted = time.process_time()
        explanations = explainer.explain(model, data, index=chosen)
        row["fit [CPU s]"] = round(fitted - start, 1)
        row["explain [CPU s]"] = round(time.process_time() - fitted, 1)
        row["edges per ego graph"] = sum(e.num_edges for e in explanations) // nodes
    return {**row, "peak [MiB]": round(peak_mib())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--degree", type=int, default=5)
    parser.add_argument("--skew", type=float, default=0.0)
    parser.add_argument("--neighbors")
    parser.add_argument("--names", default=",".join(OPTIONS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=OPTIONS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        given = options.edges, options.nodes, options.degree, options.skew, options.neighbors
        print(json.dumps(measure(options.only, *given)))
        return
    rows = []
    for name in options.names.split(","):
        given = ("edges", "nodes", "degree", "skew")
        arguments = [f"--{key}={getattr(options, key)}" for key in given]
        arguments += [f"--neighbors={options.neighbors}"] if options.neighbors else []
        command = [sys.executable, __file__, *arguments, f"--only={name}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        rows.append(json.loads(done.stdout))
        print(rows[-1], flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
