"""Judge a mask, guarantee a risk, and compare two molecules.

The model counts fluorine atoms, so that all answers are known.
"""

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool

from hpme.data import from_smiles
from hpme.explainers import HPMEExplainer, OcclusionExplainer


class Fluorines(nn.Module):
    """A value per molecule: twice the number of fluorine atoms."""

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return 2 * global_add_pool(x, batch)[:, 4:5]


def molecules(smiles: list[str]) -> list[Data]:
    return list(from_smiles(smiles, [0] * len(smiles), progress=False))


def main() -> None:
    model, ends = Fluorines(), ("F", "O", "(=O)C", "Cl")
    graphs = molecules([f"{'C' * n}{end}" for n in range(2, 17) for end in ends])
    explainer = HPMEExplainer(k=2).fit(model, graphs, mode="regression", progress=False)

    with_fluorine = [graph for graph in graphs if bool(graph.x[:, 4].any())]
    occlusion = OcclusionExplainer(unit="node")
    masks = {
        "occlusion": occlusion.explain(model, with_fluorine, mode="regression", progress=False),
        "first atoms": [torch.arange(len(graph.x)) < 2 for graph in with_fluorine],
    }
    print(explainer.judge(model, with_fluorine, masks))

    new = molecules([f"{'C' * n}(C){end}" for n in range(2, 27) for end in ("F", "O", "Cl")])
    found = explainer.guarantee(model, new, alpha=0.2)
    print(found.sentence())
    shown = explainer.showing().explain(model, new, progress=False)
    seen = sum(bool(e.pooled[g.x[:, 4] > 0].all()) for g, e in zip(new, shown, strict=True))
    print(f"molecules whose fluorine is shown, if any: {seen} of {len(new)}")

    first, second = molecules(["Cc1ccc(O)cc1"]), molecules(["Fc1ccc(N)cc1"])
    (pair,) = explainer.pairs(model, first, second)
    print(pair)
    share = max(part.change for part in pair.parts) / pair.difference
    print(f"share of the fluorine: {share:.2f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
