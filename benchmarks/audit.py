"""Does the audit agree with what models do: with one of two groups alone, and in matched pairs?

    python benchmarks/audit.py [--sets ester-benzene,morpholine-benzene] [--seeds 0-2] [--json FILE]
    python benchmarks/audit.py --endpoints AMES,hERG [--half even] [--audited 1000] [--json FILE]

First form: five GINE of ``real_molecules.py`` for each set of ``$HPME_DATA_DIR/attribution``: one
told group A, one told group B (benzene, by intent), others trained where both groups occur together
or not, which may read either. The audit sees molecules with both or neither alone. A model reads a
group if more than half of the molecules that have it without the other are predicted positive; it
needs both if that holds for neither group, but for molecules with both.

Second form, which needs what ``grafts.py`` does: endpoints of ADMET-AI (its first network) and 20
substituents. RDKit's reactions, which know nothing of grafts, put every substituent on a random
carbon of its kind in molecules of another prediction that do not have it, and take all of them off
molecules of the usual prediction. Of its kind: next to a heteroatom as often as where the
substituent occurs. The audit sees other molecules than these. Signs agree if both means have the
same one, sizes if the mean of the matched pairs is in the audit's interval, or, since they have an
error as well, if zero is in that of the difference.
Molecules are those of odd or even index of the Ames table and of the drugs that come with ADMET-AI.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib
import json
import math
import os
import random
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from real_molecules import ask, train
from torch import Tensor
from torch_geometric.data import Data

from hpme.bench.experiment import parse_seeds
from hpme.data import GraphStore, from_smiles
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme.audit import FINDINGS
from hpme.explainers.hpme.evidence import interval

FILES = ("ester-benzene", "morpholine-benzene")
GROUPS = {
    "amide": "[CX3](=O)[NX3]",
    "ester": "[#6][CX3](=O)[OX2H0][#6]",
    "fluorine": "F",
    "hydroxyl": "[OX2H]",
    "methoxy": "[#6][OX2][CH3]",
    "pyridine": "n1ccccc1",
    "thiophene": "s1cccc1",
    "ether": "[#6;!$(C=O)][OX2][#6;!$(C=O)]",
    "benzene": "c1ccccc1",
}
"""Other groups of the same molecules, of which sets can be made: ``amide-fluorine``."""
INPUTS = ("x", "edge_index", "edge_attr", "smiles")
SHORT: dict[str, Any] = {"restarts": 1}
"""Options of a short search, since grafts use no pool."""


def rows_of(name: str) -> list[dict[str, str]]:
    path = Path(os.environ["HPME_DATA_DIR"]) / "attribution" / f"{name}.csv.gz"
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


def molecules(name: str, count: int) -> tuple[list[str], Tensor, Tensor, list[str]]:
    """Molecules, which of them have group A and group B, and the SMARTS of both.

    Pairs of groups that no file is about are looked for in the molecules of all files, as many
    with both, with either and with neither.
    """
    order = torch.Generator().manual_seed(0)
    if name in FILES:
        smarts = {row["role"]: row["smarts"] for row in rows_of(f"{name}_smarts")}
        rows = rows_of(f"{name}_smiles")
        rows = [rows[i] for i in torch.randperm(len(rows), generator=order).tolist()[:count]]
        a, b = (torch.tensor([row[group] == "True" for row in rows]) for group in "AB")
        return [row["smiles"] for row in rows], a, b, [smarts["A"], smarts["B"]]
    chem, two = importlib.import_module("rdkit.Chem"), [GROUPS[one] for one in name.split("-")]
    texts = list(
        dict.fromkeys(row["smiles"] for file in FILES for row in rows_of(f"{file}_smiles"))
    )
    found = [chem.MolFromSmiles(text) for text in texts]
    a, b = (
        torch.tensor([mol.HasSubstructMatch(chem.MolFromSmarts(one)) for mol in found])
        for one in two
    )
    ids = torch.randperm(len(texts), generator=order)
    sorts = [ids[(2 * a + b)[ids] == sort][: count // 4] for sort in range(4)]
    ids = torch.cat(sorts)[torch.randperm(sum(map(len, sorts)), generator=order)]
    return [texts[i] for i in ids.tolist()], a[ids], b[ids], two


def run(name: str, count: int, audited: int, seeds: list[int]) -> list[dict[str, Any]]:
    texts, a, b, smarts = molecules(name, count)
    made = from_smiles(texts, [0] * len(texts), progress=False)
    if made.skipped:
        raise SystemExit(f"{name}: {len(made.skipped)} molecules cannot be read")
    graphs = [Data(**{k: g[k] for k in INPUTS}) for g in made]
    store = GraphStore.from_graphs(graphs)
    together = (a == b).nonzero().view(-1)
    everything = torch.arange(len(texts))
    plans = [("A", everything, a, seeds[0]), ("B", everything, b, seeds[0])]
    plans += [(f"together, seed {seed}", together, a, seed) for seed in seeds]
    return [one(name, *plan, store, graphs, a, b, together[:audited], smarts) for plan in plans]


def one(
    name: str, label: str, ids: Tensor, y: Tensor, seed: int, store: GraphStore,
    graphs: list[Data], a: Tensor, b: Tensor, shown: Tensor, smarts: list[str],
) -> dict[str, Any]:  # fmt: skip
    model, score = train(store.subset(ids), y[ids].long(), seed)
    with torch.no_grad():
        positive = ask(model, store, torch.arange(len(store))).argmax(1) == 1
    alone = [float(positive[which].float().mean()) for which in (a & ~b, b & ~a)]
    behaviour: str = FINDINGS[alone[0] > 0.5, alone[1] > 0.5]
    if max(alone) <= 0.5 < float(positive[a & b].float().mean()):
        behaviour = "needs both"
    some = [graphs[i] for i in shown.tolist()]
    explainer = HPMEExplainer(seed=seed, **SHORT)
    explainer.fit(model, some[:60], progress=False)
    found = explainer.audit(model, some, *smarts)
    result = {"set": name, "trained": label, "accuracy": score, "A only": alone[0],
              "B only": alone[1], "behaviour": behaviour, **found.to_dict()}  # fmt: skip
    print(name, label, f"accuracy {score:.3f}, positive with A only {alone[0]:.2f}, B only "
          f"{alone[1]:.2f}: {behaviour}; audit: {found}", flush=True)  # fmt: skip
    return result


SUBSTITUENTS = {
    "aromatic nitro": ("c", "[N+](=O)[O-]"),
    "aromatic amine": ("c", "[NH2]"),
    "aromatic acid": ("c", "C(=O)[OH]"),
    "phenol": ("c", "[OH]"),
    "aromatic methoxy": ("c", "O[CH3]"),
    "aromatic methyl": ("c", "[CH3]"),
    "aromatic F": ("c", "F"),
    "aromatic Cl": ("c", "Cl"),
    "aromatic Br": ("c", "Br"),
    "aromatic nitrile": ("c", "C#N"),
    "aromatic CF3": ("c", "C(F)(F)F"),
    "aromatic acetyl": ("c", "C(=O)[CH3]"),
    "aromatic dimethylamine": ("c", "N([CH3])[CH3]"),
    "aromatic sulfonamide": ("c", "S(=O)(=O)[NH2]"),
    "aromatic acetamide": ("c", "[NH]C(=O)[CH3]"),
    "alcohol": ("[CX4]", "[OH]"),
    "alkyl chloride": ("[CX4]", "Cl"),
    "alkyl amine": ("[CX4]", "[NH2]"),
    "aliphatic acid": ("[CX4]", "C(=O)[OH]"),
    "aliphatic methoxy": ("[CX4]", "O[CH3]"),
}
"""What each is bound to, and SMARTS that read as SMILES of what is moved."""


class Pairs:
    """Matched pairs of one substituent by RDKit's reactions."""

    def __init__(self, anchor: str, group: str) -> None:
        chem = importlib.import_module("rdkit.Chem")
        reaction = importlib.import_module("rdkit.Chem.AllChem").ReactionFromSmarts
        site, kept = ("cH", "[c:1]") if anchor == "c" else ("CX4;!H0", "[C:1]")
        near, inner = "$(*-,=,#,:[!#6;!#1])", anchor.strip("[]")
        self.chem, self.smarts = chem, anchor + group
        self.query = chem.MolFromSmarts(self.smarts)
        self.on = {
            True: reaction(f"[{site};{near}:1]>>{kept}{group}"),
            False: reaction(f"[{site};!{near}:1]>>{kept}{group}"),
        }
        self.off = reaction(f"[{inner}:1]{group}>>{kept}")
        self.near = chem.MolFromSmarts(f"[{inner}]({group})-,=,#,:[!#6;!#1]")

    def has(self, mol: Any) -> bool:
        """Whether a molecule has the substituent."""
        return bool(mol.HasSubstructMatch(self.query))

    def put_on(self, mol: Any, like: Any, draw: random.Random) -> str | None:
        """A molecule with it, at a place like that of one match in another molecule."""
        anchors = {match[0] for match in like.GetSubstructMatches(self.query)}
        near = {match[0] for match in like.GetSubstructMatches(self.near)}
        which = draw.choice(sorted(anchors)) in near
        made = [products[0] for products in self.on[which].RunReactants((mol,))]
        return self.read(draw.choice(made)) if made else None

    def taken_off(self, mol: Any) -> str | None:
        """A molecule without any of them."""
        for _ in range(12):
            made = self.off.RunReactants((mol,))
            if not made:
                break
            text = self.read(made[0][0])
            if text is None:
                return None
            mol = self.chem.MolFromSmiles(text)
        return None if self.has(mol) else str(self.chem.MolToSmiles(mol))

    def read(self, mol: Any) -> str | None:
        """Its SMILES, if it is a molecule."""
        if int(self.chem.SanitizeMol(mol, catchErrors=True)):
            return None
        text = str(self.chem.MolToSmiles(mol))
        return text if self.chem.MolFromSmiles(text) is not None else None


def tabled(half: str) -> list[str]:
    """Molecules of the Ames table and drugs, one half of each, in random order."""
    chem, found = importlib.import_module("rdkit.Chem"), {}
    files = [Path(os.environ["HPME_DATA_DIR"]) / "ames" / "ames.csv", drugs()]
    for file in files:
        with file.open() as rows:
            for number, row in enumerate(csv.DictReader(rows), 1):
                if int(row.get("index", number)) % 2 == (half == "odd"):
                    mol = chem.MolFromSmiles(row["smiles"])
                    if mol is not None and 2 <= mol.GetNumAtoms() <= 60:
                        found.setdefault(chem.MolToSmiles(mol), len(found))
    texts = list(found)
    random.Random(0).shuffle(texts)
    return texts


def admet() -> Path:
    spec = importlib.import_module("importlib.util").find_spec("admet_ai")
    if spec is None:
        raise SystemExit("no ADMET-AI; install its files with: pip install --no-deps admet-ai")
    return Path(next(iter(spec.submodule_search_locations))) / "resources"


def drugs() -> Path:
    return admet() / "data" / "drugbank_approved.csv"


def matched(endpoint: str, half: str, count: int, others: int, limit: int) -> list[dict[str, Any]]:
    """The audit of every substituent, beside matched pairs of other molecules."""
    chem = importlib.import_module("rdkit.Chem")
    ours = importlib.import_module("hpme.models.chemprop")
    auditing = importlib.import_module("hpme.explainers.hpme.audit")
    effects = importlib.import_module("hpme.explainers.hpme.pattern_effects")
    grafting = importlib.import_module("hpme.explainers.hpme.grafting")
    for kind in ("classification", "regression"):
        network, tasks = ours.read_model(admet() / f"models/admet_{kind}/model_0.pt")
        if endpoint in tasks:
            break
    model = ours.explained(network, tasks=tasks, target=endpoint)
    classes = kind == "classification"
    texts, draw = tabled(half), random.Random(1)
    graphs = ours.molecules(texts[:count], network)
    explainer = HPMEExplainer(**SHORT).fit(model, graphs[:40], progress=False)
    store = model.read(graphs)
    rest = [(text, chem.MolFromSmiles(text)) for text in texts[count : count + others]]
    results = []
    with explainer._transplants(model, store) as transplants:
        known = grafting.Featuriser.of(explainer._leveled(model, None), store)
        moving = grafting.Grafting(transplants.context, known, store.text["smiles"], 0)
        fits = known.fits(store)

        def outputs(some: list[str]) -> list[float]:
            values = transplants.context.task.values(moving.ask(some)).double()
            column = values[:, 1] if classes else values[:, 0] * transplants.context.task.scale
            found: list[float] = column.tolist()
            return found

        said = dict(zip([t for t, _ in rest], outputs([t for t, _ in rest]), strict=True))
        for name, (anchor, group) in SUBSTITUENTS.items():
            pair = Pairs(anchor, group)
            start = time.process_time()
            pattern = effects.NamedPattern.of(store, pair.smarts, "should")
            found = auditing.audit_of(transplants, pattern, None, moving, fits)
            seconds = time.process_time() - start
            one = found.should
            usual = one.prediction if classes else 1.0
            side = [(t, m) for t, m in rest if not classes or (said[t] > 0.5) == (usual == 1)]
            other = [(t, m) for t, m in rest if not classes or (said[t] > 0.5) != (usual == 1)]
            likes = [m for _, m in rest if pair.has(m)]
            on = [
                (t, pair.put_on(m, draw.choice(likes), draw))
                for t, m in other
                if likes and not pair.has(m)
            ]
            off = [(t, pair.taken_off(m)) for t, m in side if pair.has(m)]
            sign = 1 if usual == 1 else -1
            truth = {}
            for what, some, towards in (("inserted", on, 1), ("removed", off, -1)):
                made = [(t, new) for t, new in some if new is not None][:limit]
                after = outputs([new for _, new in made]) if made else []
                changes = [
                    sign * towards * (a - said[t]) for (t, _), a in zip(made, after, strict=True)
                ]
                mean, low, _ = interval(torch.tensor(changes).double()[:, None])[0].tolist()
                truth[what] = (mean, len(changes), mean - low)
            row = {"endpoint": endpoint, "pattern": name, "matched": truth, "seconds": seconds}
            results.append(row | found.to_dict())
            print(endpoint, name, truth, str(found).replace("\n", " | "), flush=True)
    return results


def agreement(results: list[dict[str, Any]]) -> None:
    """Shares of means whose sign agrees, and that are in the audit's interval."""
    for what in ("inserted", "removed"):
        asked = [
            (*r["matched"][what][::2], *r["should"][what]["effect"])
            for r in results
            if r["should"][what] is not None and r["matched"][what][1] >= 10
        ]
        asked = [row for row in asked if None not in row]
        signs = [m * mean > 0 for m, _, mean, *_ in asked]
        clear = [s for s, (*_, low, high) in zip(signs, asked, strict=True) if low * high > 0]
        inside = [low <= m <= high for m, _, _, low, high in asked]
        both = [abs(m - mean) <= math.hypot(wide, mean - low) for m, wide, mean, low, _ in asked]
        apart = statistics.median(abs(m - mean) for m, _, mean, *_ in asked)
        print(
            f"{what}: {len(asked)} means, sign {statistics.fmean(signs):.3f}, of {len(clear)} whose"
            f" interval excludes zero {statistics.fmean(clear):.3f}, inside the interval "
            f"{statistics.fmean(inside):.3f}, as far as both intervals allow "
            f"{statistics.fmean(both):.3f}, median distance {apart:.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="ester-benzene,morpholine-benzene")
    parser.add_argument("--molecules", type=int, default=4000, help="to train on")
    parser.add_argument("--audited", type=int, default=1000)
    parser.add_argument("--seeds", default="0-2", help="of models and explainers")
    parser.add_argument("--endpoints", help="of ADMET-AI: the second form")
    parser.add_argument("--half", default="even", choices=["odd", "even"])
    parser.add_argument("--others", type=int, default=3000, help="molecules to make pairs of")
    parser.add_argument("--pairs", type=int, default=400, help="matched pairs of either kind")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.endpoints:
        importlib.import_module("rdkit.RDLogger").DisableLog("rdApp.*")
        found: list[dict[str, Any]] = []
        for name in arguments.endpoints.split(","):
            sizes = arguments.audited, arguments.others, arguments.pairs
            found += matched(name, arguments.half, *sizes)
            if arguments.json:
                arguments.json.write_text(json.dumps(found, indent=1) + "\n")
        return agreement(found)
    seeds = parse_seeds(arguments.seeds)
    results: list[dict[str, Any]] = []
    for name in arguments.sets.split(","):
        results += run(name, arguments.molecules, arguments.audited, seeds)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    agree = sum(r["behaviour"] == r["verdict"] for r in results)
    print(f"the verdict agrees with behaviour for {agree} of {len(results)} models")


if __name__ == "__main__":
    main()
