"""Small Chemprop networks and molecules for tests."""

import numpy as np
import torch
from chemprop import data, featurizers, models, nn
from lightning import pytorch as pl

SMILES = [
    f"{left}{middle}{right}"
    for left in ("C", "CC", "OC", "c1ccccc1", "FC", "N#CC")
    for middle in ("C", "C(=O)N", "CO", "S")
    for right in ("C", "CC", "c1ccncc1")
]
CHEAP = {"k": 3, "restarts": 1}
WIDTH = 16


def points(extra=False, tasks=1):
    rng, found = np.random.default_rng(0), []
    for smiles in SMILES:
        y = np.array([float("C(=O)N" in smiles), float("F" in smiles)][:tasks])
        point = data.MoleculeDatapoint.from_smi(smiles, y)
        if extra:
            atoms, bonds = point.mol.GetNumAtoms(), point.mol.GetNumBonds()
            point.V_f, point.V_d = rng.normal(size=(atoms, 3)), rng.normal(size=(atoms, 4))
            point.E_f, point.x_d = rng.normal(size=(bonds, 2)), rng.normal(size=5)
        found.append(point)
    return found


def network(passing="Bond", head="RegressionFFN", extra=False, mode="V2", **options):
    atoms = len(featurizers.get_multi_hot_atom_featurizer(mode)) + 3 * extra
    bonds = (2 if mode == "RIGR" else 14) + 2 * extra
    sizes = {"d_v": atoms, "d_e": bonds, "d_h": WIDTH, "d_vd": 4 if extra else None}
    messages = getattr(nn, f"{passing}MessagePassing")(**sizes)
    options = {"input_dim": WIDTH + 9 * extra, "hidden_dim": WIDTH, **options}
    predictor = getattr(nn.predictors, head)(**options)
    fast = {"init_lr": 1e-3, "max_lr": 1e-2, "final_lr": 1e-3}  # a few steps should do
    model = models.MPNN(messages, nn.MeanAggregation(), predictor, batch_norm=True, **fast)
    return model.eval()


def trainer(**options):
    quiet = dict.fromkeys(
        ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
    )
    return pl.Trainer(accelerator="cpu", **quiet, **options)


def trained(found, **options):
    model = network(**options)
    dataset = data.MoleculeDataset(found)
    trainer(max_epochs=40).fit(model, data.build_dataloader(dataset, batch_size=24, num_workers=0))
    return model.eval()


def chemprops_own(model, found, **extra):
    featurizer = featurizers.SimpleMoleculeMolGraphFeaturizer(**extra)
    loader = data.build_dataloader(
        data.MoleculeDataset(found, featurizer), shuffle=False, num_workers=0
    )
    return torch.cat(trainer().predict(model, loader))


def ours(known, graphs):
    with torch.no_grad():
        return known.adapter().predict(known.read(graphs).batch())
