"""Why a published model calls molecules mutagenic.

Needs ``pip install 'hpme[chemprop]'`` and ``pip install --no-deps admet-ai``, whose five Chemprop
models and table of approved drugs are used; its own code is not.
"""

import csv
import importlib.util
import warnings
from pathlib import Path

import torch
from rdkit import Chem

from hpme.explainers import HPMEExplainer
from hpme.models.chemprop import explained, molecules, read_model
from hpme.viz import write_page

warnings.filterwarnings("ignore")
resources = Path(importlib.util.find_spec("admet_ai").origin).parent / "resources"

# Mutagens with the group that chemists blame, and drugs that are none.
known = {
    "2-nitrofluorene": ("O=[N+]([O-])c1ccc2c(c1)Cc1ccccc1-2", "[N+](=O)[O-]"),
    "nitrofurantoin": ("O=C1CN(/N=C/c2ccc([N+](=O)[O-])o2)C(=O)N1", "[N+](=O)[O-]"),
    "4-aminobiphenyl": ("Nc1ccc(-c2ccccc2)cc1", "[NX3;H2]c"),
    "benzidine": ("Nc1ccc(-c2ccc(N)cc2)cc1", "[NX3;H2]c"),
    "N-nitrosodimethylamine": ("CN(C)N=O", "NN=O"),
    "glycidol": ("OCC1CO1", "C1CO1"),
    "styrene oxide": ("c1ccc(C2CO2)cc1", "C1CO1"),
    "mechlorethamine": ("CN(CCCl)CCCl", "NCCCl"),
    "benzo[a]pyrene": ("c1ccc2c(c1)cc1ccc3cccc4ccc2c1c34", None),
    "aflatoxin B1": ("COc1cc2c(c3oc(=O)c4c(c13)CCC4=O)C1C=COC1O2", None),
    "aspirin": ("CC(=O)Oc1ccccc1C(=O)O", None),
    "ibuprofen": ("CC(C)Cc1ccc(C(C)C(=O)O)cc1", None),
    "caffeine": ("Cn1c(=O)c2c(ncn2C)n(C)c1=O", None),
    "metformin": ("CN(C)C(=N)NC(=N)N", None),
}

model, tasks = read_model(resources / "models" / "admet_classification")  # five files: an ensemble
ames = explained(model, target="AMES")
graphs = molecules([smiles for smiles, _ in known.values()], model)
with (resources / "data" / "drugbank_approved.csv").open(encoding="utf-8") as file:
    drugs = [row["smiles"] for row in csv.DictReader(file)]
background = molecules(drugs[::40], model)  # what the explainer learns from

column = tasks.index("AMES")
with torch.no_grad(), ames.frozen():
    odds = ames.adapter().predict(ames.read(graphs).batch())[:, 0]
spread = model.spread(graphs)[:, column]

explainer = HPMEExplainer(k=4, restarts=1).fit(ames, background, progress=False)
explanations = explainer.explain(ames, graphs, progress=False)

found = blamed = 0
for name, one, logit, sd in zip(known, explanations, odds, spread, strict=True):
    smiles, group = known[name]
    top = int(one.node_mask[:, 0].argmax())
    print(f"{name}: p = {float(logit.sigmoid()):.2f} ± {float(sd):.2f}", end="")
    if group is not None:
        matches = Chem.MolFromSmiles(smiles).GetSubstructMatches(Chem.MolFromSmarts(group))
        inside = any(top in match for match in matches)
        found, blamed = found + inside, blamed + 1
        print(", most important atom inside the group" if inside else ", outside of it", end="")
    print()
print(f"most important atom inside the group: {found} of {blamed}")
write_page(ames, graphs, {"hpme": explanations}, "out/admet.html", names=list(known))
