"""Clones, tables and pictures, as scikit-learn and pandas users expect them."""

from sklearn.base import clone

from hpme.data import load_dataset
from hpme.explainers import GNNExplainer
from hpme.models import load_or_train

dataset = load_dataset("ba-2motifs", size=200)
model, _ = load_or_train(dataset, "gcn", seed=0)

first = GNNExplainer(epochs=50)
second = clone(first).set_params(seed=1)
graphs = [dataset[0], dataset[1]]
explanations = second.explain(model, graphs, progress=False)

table = explanations[0].to_frame()  # one row per edge; to_frame("nodes") for nodes
heaviest = table.sort_values("importance", ascending=False).head(6)
print(heaviest.to_string(index=False))
picture = explanations[0].draw()  # the SVG that notebooks show; draw("a.png") writes a file
print(f"{len(table)} rows, picture of {len(picture):,} letters")
