"""Clones, tables and pictures, with the conventions of scikit-learn and pandas."""

import torch
from sklearn.base import clone

from hpme.data import load_dataset
from hpme.explainers import GNNExplainer
from hpme.models import build_model


def main() -> None:
    torch.manual_seed(0)
    dataset = load_dataset("ba-2motifs", size=20, progress=False)
    model = build_model("gcn", dataset.num_features, dataset.num_classes)  # or one you trained

    first = GNNExplainer(epochs=20)
    second = clone(first).set_params(seed=1)
    explanation = second.explain(model, [dataset[0]], progress=False)[0]

    table = explanation.to_frame()  # one row per edge; to_frame("nodes") for explainers with those
    print(table.sort_values("importance", ascending=False).head(6).to_string(index=False))
    picture = explanation.draw()  # the SVG that notebooks show; draw("a.png") writes a file
    print(f"{len(table)} rows, picture of {len(picture):,} letters")


if __name__ == "__main__":
    main()
