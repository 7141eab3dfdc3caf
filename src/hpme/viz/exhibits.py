"""Pictures from what records keep of a few graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from hpme.bench.cells import Cell
from hpme.bench.names import dataset_title, method_title
from hpme.bench.record import Record
from hpme.viz.document import Picture
from hpme.viz.pictures import case_picture, mixup_picture, partner_picture

MASKS = ("edge_mask", "node_mask")


def case_pictures(cells: Sequence[Cell], suite: str) -> list[Picture]:
    """One picture per dataset: ground truth and explanations of all methods that were run."""
    pictures = []
    for name, records in by_dataset(cells, "explanations").items():
        graphs = exhibited(records, "explanations")
        shown = {
            method: [_explanation(item) for item in _items(record, "explanations", graphs)]
            for method, record in records.items()
        }
        caption = (
            f"{dataset_title(name)}: ground truth, and as many of the heaviest edges of each "
            "explanation; nodes that HPME pooled are marked."
        )
        figure = case_picture(list(graphs.values()), shown)
        pictures.append(Picture(f"{suite}-{name}", caption, figure, chart=False))
    return pictures


def mixup_pictures(cells: Sequence[Cell], suite: str) -> list[Picture]:
    """One picture per dataset: ground truth and mixup graphs of all methods that were run."""
    pictures = []
    for name, records in by_dataset(cells, "mixups").items():
        graphs = exhibited(records, "mixups")
        shown = {
            method: [_mixed(item) for item in _items(record, "mixups", graphs)]
            for method, record in records.items()
        }
        caption = (
            f"{dataset_title(name)}: mixup graphs. Edges from the explanation are red, all others "
            "blue, darker the more they weigh; dashed ones join two graphs at random. Of the "
            "complete graphs of ProxyExplainer the 64 heaviest edges are drawn."
        )
        figure = mixup_picture(list(graphs.values()), shown)
        pictures.append(Picture(f"{suite}-{name}", caption, figure, chart=False))
    return pictures


def partner_pictures(cells: Sequence[Cell], suite: str) -> list[Picture]:
    """One picture per dataset: a graph mixed with a partner drawn in each way."""
    pictures = []
    for name, records in by_dataset(cells, "mixups").items():
        shown = [
            _items(record, "mixups", exhibited(records, "mixups")) for record in records.values()
        ]
        # A graph may have drawn itself, which shows nothing.
        apart = [all(i["partner"] != i["graph"] for i in same) for same in zip(*shown, strict=True)]
        place, rows = apart.index(True) if any(apart) else 0, {}
        for record, items in zip(records.values(), shown, strict=True):
            item, way = items[place], str(record.context["config"]["neighbor"])
            pair = (_drawn(item, item["graph"]), _drawn(item, item["partner"]))
            rows[f"{way} partner"] = (*pair, _mixed(item))
        caption = (
            f"{dataset_title(name)}: a graph, the graph it is mixed with, and the mixup graph, "
            "where the pooled subgraph of the one (red) replaces that of the other."
        )
        pictures.append(Picture(f"{suite}-{name}", caption, partner_picture(rows), chart=False))
    return pictures


def by_dataset(cells: Sequence[Cell], exhibit: str) -> dict[str, dict[str, Record]]:
    """The first record of every cell that has the exhibit, by dataset and method."""
    found: dict[str, dict[str, Record]] = {}
    for cell in cells:
        if cell.records and exhibit in cell.records[0].context.get("exhibits", {}):
            e = cell.template
            title = method_title(e.explainer or "", e.options)
            found.setdefault(e.dataset, {})[title] = cell.records[0]
    return found


def exhibited(records: Mapping[str, Record], exhibit: str) -> dict[int, Data]:
    """The graphs that all records of a dataset show, by number."""
    shown = [
        [item["graph"] for item in record.context["exhibits"][exhibit]]
        for record in records.values()
    ]
    common = [n for n in shown[0] if all(n in numbers for numbers in shown)]
    items = _items(next(iter(records.values())), exhibit, common)
    return {number: _drawn(item, number) for number, item in zip(common, items, strict=True)}


def _items(record: Record, exhibit: str, graphs: Iterable[int]) -> list[dict[str, Any]]:
    items = {item["graph"]: item for item in record.context["exhibits"][exhibit]}
    return [items[number] for number in graphs]


def _drawn(item: Mapping[str, Any], number: int) -> Data:
    values = dict(item["drawn"][str(number)])
    index = torch.tensor(values.pop("edge_index"), dtype=torch.long).view(2, -1)
    masks = {name: torch.tensor(values.pop(name)) for name in MASKS if name in values}
    return Data(edge_index=index, **masks, **values)


def _explanation(item: Mapping[str, Any]) -> Explanation:
    explanation = Explanation(edge_mask=torch.tensor(item["edge_mask"], dtype=torch.float))
    if "pooled" in item:
        explanation.pooled = torch.tensor(item["pooled"], dtype=torch.bool)
    return explanation


def _mixed(item: Mapping[str, Any]) -> Data:
    return Data(
        num_nodes=item["num_nodes"],
        edge_index=torch.tensor(item["edge_index"], dtype=torch.long).view(2, -1),
        edge_weight=torch.tensor(item["edge_weight"], dtype=torch.float),
        transplanted=torch.tensor(item["transplanted"], dtype=torch.bool),
        bridge=torch.tensor(item["bridge"], dtype=torch.bool),
    )
