"""Which class is explained: the one you name, told apart from another, and in which direction."""

from hpme.data import load_dataset
from hpme.explainers import HPMEExplainer
from hpme.metrics import explanation_auc
from hpme.models import load_or_train

dataset = load_dataset("ba-2motifs", size=400)
model, _ = load_or_train(dataset, "gcn", seed=0)
graphs = [dataset[i] for i in range(200)]
house, cycle = "house", "cycle"

explainer = HPMEExplainer(ratio=0.2, restarts=2)
facts = {"classes": [cycle, house], "target": house, "contrast": cycle}
explainer.fit(model, graphs, progress=False, **facts)

explanations = explainer.explain(model, graphs, progress=False)
effects = explainer.effects(model, explanations, nodes=False)
print(f"why {house}, not {cycle}: edge ROC-AUC {float(explanation_auc(explanations, graphs)):.3f}")
right = sum(
    effect.sign == (1 if graph.y == 1 else -1)
    for effect, graph in zip(effects, graphs, strict=True)
)
print(f"graph 0: the region {effects[0]}")
print(f"sign as expected in {right} of {len(graphs)} graphs")
