"""Which atoms matter to a Chemprop model; needs ``pip install 'hpme[chemprop]'``."""

import logging
import warnings

import numpy as np
from chemprop import data, models, nn
from lightning import pytorch as pl
from rdkit import Chem
from sklearn.metrics import roc_auc_score

from hpme.explainers import HPMEExplainer
from hpme.models.chemprop import explained, molecules

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
pl.seed_everything(0, verbose=False)

# Molecules with and without an amide group, and a network that learns to distinguish them.
ends = ["C", "CC", "CCC", "c1ccccc1", "CCO", "CCF", "C1CCCC1"]
smiles = [
    f"{a}{group}{b}" for a in ends[:5] for group in ("C(=O)N", "CC", "COC", "CS") for b in ends
]
amide = ["C(=O)N" in text for text in smiles]
points = [
    data.MoleculeDatapoint.from_smi(text, np.array([float(label)]))
    for text, label in zip(smiles, amide, strict=True)
]
head = nn.BinaryClassificationFFN(input_dim=64, hidden_dim=64)
model = models.MPNN(nn.BondMessagePassing(d_h=64), nn.SumAggregation(), head, batch_norm=True)
quiet = dict.fromkeys(
    ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
)
trainer = pl.Trainer(max_epochs=15, accelerator="cpu", **quiet)
trainer.fit(model, data.build_dataloader(data.MoleculeDataset(points), num_workers=0))

known = explained(model)  # how the network is called, and what its output means
graphs = molecules(points, model)
explainer = HPMEExplainer(k=4, restarts=2).fit(known, graphs, progress=False)
explanations = explainer.explain(known, graphs, progress=False)

pattern = Chem.MolFromSmarts("C(=O)N")
scores = []
for point, explanation in zip(points, explanations, strict=True):
    group = {atom for match in point.mol.GetSubstructMatches(pattern) for atom in match}
    if group:
        truth = [atom in group for atom in range(point.mol.GetNumAtoms())]
        scores.append(roc_auc_score(truth, explanation.node_mask[:, 0]))
print(f"atom ROC-AUC of amides: {sum(scores) / len(scores):.3f}")
