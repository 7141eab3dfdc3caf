"""Small graphs with types, and models of them."""

import torch
from torch import nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import (
    GraphConv,
    HeteroConv,
    HGTConv,
    SAGEConv,
    global_add_pool,
    to_hetero,
)

WIDTHS = {"user": 3, "item": 2, "tag": 1}
BUYS, RATES = ("user", "buys", "item"), ("user", "rates", "item")
HAS, KNOWS = ("item", "has", "tag"), ("user", "knows", "user")
UNUSED = ("tag", "is", "tag")
FORWARD = (BUYS, RATES, HAS, KNOWS, UNUSED)
EDGE_TYPES = (*FORWARD, *((c, f"rev_{b}", a) for a, b, c in FORWARD[:3]))
METADATA = (list(WIDTHS), list(EDGE_TYPES))
CLASSES = 2


def make_graph(seed, sizes=None, edge_features=False):
    """Users that buy and rate items, items that have tags, users that know users and themselves."""
    generator = torch.Generator().manual_seed(seed)
    sizes = sizes or {"user": 4 + seed % 3, "item": 3 + seed % 2, "tag": 2}
    data = HeteroData()
    for kind, width in WIDTHS.items():
        data[kind].x = torch.randn(sizes[kind], width, generator=generator)
    for source, name, target in FORWARD:
        ends = [torch.arange(sizes[kind]) for kind in (source, target)]
        every = torch.cartesian_prod(*ends).view(-1, 2).T
        share = 0.0 if name == "is" else 0.5
        kept = torch.rand(every.shape[1], generator=generator) < share
        data[source, name, target].edge_index = every[:, kept]
        if name in ("buys", "rates", "has"):
            data[target, f"rev_{name}", source].edge_index = every[:, kept].flip(0)
    if edge_features:
        for kind in (BUYS, HAS):
            count = data[kind].edge_index.shape[1]
            width = 2 if kind == BUYS else 1
            data[kind].edge_attr = torch.randn(count, width, generator=generator)
    data.y = torch.tensor([seed % 2])
    return data


def make_graphs(count=8, **options):
    return [make_graph(seed, **options) for seed in range(count)]


class Pooled(nn.Module):
    """Readouts of every type and a head, whatever the layers."""

    def __init__(self):
        super().__init__()
        self.inputs = nn.ModuleDict({kind: nn.Linear(w, 8) for kind, w in WIDTHS.items()})
        self.head = nn.Linear(8 * len(WIDTHS), CLASSES)

    def start(self, x_dict):
        return {kind: self.inputs[kind](x).tanh() for kind, x in x_dict.items()}

    def finish(self, h, batch_dict, batch_size):
        pooled = [global_add_pool(h[kind], batch_dict[kind], batch_size) for kind in WIDTHS]
        return self.head(torch.cat(pooled, dim=1))


class Convs(Pooled):
    """``HeteroConv`` with edge weights."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(
            HeteroConv({kind: GraphConv(8, 8) for kind in EDGE_TYPES}) for _ in range(2)
        )

    def forward(self, x_dict, edge_index_dict, batch_dict, edge_weight_dict=None, batch_size=None):
        h = self.start(x_dict)
        more = {} if edge_weight_dict is None else {"edge_weight_dict": edge_weight_dict}
        for conv in self.convs:
            h = {kind: rows.tanh() for kind, rows in conv(h, edge_index_dict, **more).items()}
        return self.finish(h, batch_dict, batch_size)


class Transformer(Pooled):
    """``HGTConv``, which takes all edges at once and no weights."""

    def __init__(self):
        super().__init__()
        self.conv = HGTConv(8, 8, METADATA, heads=2)

    def forward(self, x_dict, edge_index_dict, batch_dict, batch_size=None):
        h = self.start(x_dict)
        h = {kind: h[kind] + rows for kind, rows in self.conv(h, edge_index_dict).items()}
        return self.finish(h, batch_dict, batch_size)


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = SAGEConv((-1, -1), 8), SAGEConv((-1, -1), 8)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).tanh(), edge_index).tanh()


class Converted(Pooled):
    """``to_hetero``."""

    def __init__(self):
        super().__init__()
        self.layers = to_hetero(Layers(), METADATA)

    def forward(self, x_dict, edge_index_dict, batch_dict, batch_size=None):
        h = self.layers(self.start(x_dict), edge_index_dict)
        return self.finish(h, batch_dict, batch_size)


class OfUsers(Convs):
    """Predictions for users."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x_dict, edge_index_dict):
        h = self.start(x_dict)
        for conv in self.convs:
            h = {kind: rows.tanh() for kind, rows in conv(h, edge_index_dict).items()}
        return self.head(h["user"])


MODELS = {"convs": Convs, "transformer": Transformer, "converted": Converted}


def make_model(name="convs"):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1)
        model = {**MODELS, "users": OfUsers}[name]()
        if name == "converted":  # lazy layers
            graph = make_graph(0)
            batch = {kind: torch.zeros(len(graph[kind].x)).long() for kind in WIDTHS}
            model(graph.x_dict, graph.edge_index_dict, batch, 1)
        return model.eval()
