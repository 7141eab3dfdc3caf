"""Why red and not blue? Explains one class against another, and the direction of the effect.

Graphs are rings with a coloured stretch; the model counts colours.
"""

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool

from hpme.explainers import HPMEExplainer

COLOURS = ["red", "green", "blue"]


class ColourCounter(nn.Module):
    """Stands for a trained model; logits are numbers of coloured nodes."""

    def forward(self, x, edge_index, batch):
        return 2 * global_add_pool(x, batch)[:, :3]


def ring(number: int, generator: torch.Generator) -> Data:
    size, colour = 9 + number % 4, number % 3
    node = torch.arange(size)
    index = torch.stack([node, (node + 1) % size])
    x = torch.zeros(size, 4)
    x[:, 3] = 1
    first = int(torch.randint(size, (1,), generator=generator))
    x[(first + torch.arange(3)) % size] = nn.functional.one_hot(torch.tensor(colour), 4).float()
    return Data(x=x, edge_index=torch.cat([index, index.flip(0)], dim=1), colour=colour)


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    graphs = [ring(number, generator) for number in range(60)]
    model, explainer = ColourCounter(), HPMEExplainer(k=3, restarts=2)
    # Only graphs predicted red or blue are used; regions of red ones are put into blue ones.
    explainer.fit(model, graphs, classes=COLOURS, target="red", contrast="blue", progress=False)
    asked = [graph for graph in graphs if graph.colour != 1]
    explanations = explainer.explain(model, asked, progress=False)
    effects = explainer.effects(model, explanations)
    print(f"graph 0 is {COLOURS[asked[0].colour]}: the region {effects[0]}")
    expected = {0: 1, 2: -1}
    right = sum(e.sign == expected[g.colour] for e, g in zip(effects, asked, strict=True))
    print(f"sign as expected in {right} of {len(asked)} graphs")


if __name__ == "__main__":
    main()
