"""Transplants that chemistry allows, on a published model whose reasons chemists know.

    python benchmarks/grafts.py [--molecules 300] [--hosts 400] [--grafts 8] [--json FILE]

Needs ``pip install 'hpme[chemprop]'``, the wheel of ADMET-AI (its AMES model, five networks; it is
not imported) and ``$HPME_DATA_DIR/ames/ames.csv``. Of mutagens that the model knows and that have
exactly one kind of toxicophore (Kazius et al. 2005), all atoms of the toxicophore are put into
molecules that the model calls harmless, and so are random regions of the same molecules, of the
same size and connectedness and beside the toxicophore. Both are also taken out, with hydrogens or
with alkyl and phenyl groups of the hosts in their place. All probabilities are means over
molecules of means over grafts; "either way" is the mean absolute change of single hosts. Settings
were chosen on molecules of odd index; those of even index are for reporting.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import math
import os
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from chemprop.data import MoleculeDatapoint
from rdkit import Chem, RDLogger

from hpme.data.molecules.anatomy import Anatomy, Graft, graft_of, random_region
from hpme.data.molecules.chem import compile_smarts
from hpme.data.molecules.grafts import Hosts, fillers_of, insert_many, remove
from hpme.graphs import GraphStore
from hpme.models.chemprop import explained, molecules, read_model

TASK, NETWORKS, BATCH = "AMES", 5, 512
TOXICOPHORES = {
    "aromatic nitro": "c[N+](=O)[O-]",
    "aromatic amine": "c[NH2]",
    "N-nitroso": "[NX3][NX2]=[OX1]",
    "epoxide, aziridine": "[CX4]1[O,NX3][CX4]1",
    "azide": "[NX2]=[N+]=[N-]",
    "diazo": "[#6]=[N+]=[N-]",
    "alkyl halide": "[CH2X4][Cl,Br,I]",
    "aryl azo": "c[NX2]=[NX2]c",
    "aliphatic nitro": "[CX4][N+](=O)[O-]",
}
Rows = dict[str, list[float]]


class Model:
    """Mean probability of several networks."""

    def __init__(self, count: int) -> None:
        spec = importlib.util.find_spec("admet_ai")
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit("no ADMET-AI; install its files with: pip install --no-deps admet-ai")
        folder = Path(next(iter(spec.submodule_search_locations)))
        files = sorted((folder / "resources/models/admet_classification").glob("model_*.pt"))
        self.networks, self.adapters = [], []
        for file in files[:count]:
            network, self.tasks = read_model(file)
            self.networks.append(network)
            self.adapters.append(explained(network, tasks=self.tasks, target=TASK).adapter())

    def __call__(self, mols: Sequence[Any]) -> list[float]:
        """One probability per molecule."""
        found: list[float] = []
        for start in range(0, len(mols), BATCH):
            points = [MoleculeDatapoint(mol=mol) for mol in mols[start : start + BATCH]]
            graphs = GraphStore.from_graphs(molecules(points, self.networks[0])).batch()
            with torch.no_grad():
                each = [adapter.predict(graphs).sigmoid() for adapter in self.adapters]
            found += torch.stack(each).mean(0).view(-1).tolist()
        return found


def read(odd: bool) -> tuple[list[Any], list[int]]:
    """Molecules that RDKit reads and whether they are mutagens, one half of the table."""
    path = Path(os.environ["HPME_DATA_DIR"]) / "ames" / "ames.csv"
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if int(row["index"]) % 2 == odd]
    read = [(Chem.MolFromSmiles(row["smiles"]), int(row["active"])) for row in rows]
    known = [(mol, y) for mol, y in read if mol is not None and mol.GetNumAtoms() > 1]
    return [mol for mol, _ in known], [y for _, y in known]


def alerts(mol: Any) -> dict[str, set[int]]:
    """Atoms of every kind of toxicophore in a molecule."""
    patterns = compile_smarts(list(TOXICOPHORES.values()))
    found = {
        name: {atom for match in mol.GetSubstructMatches(pattern) for atom in match}
        for name, pattern in zip(TOXICOPHORES, patterns, strict=True)
    }
    return {name: atoms for name, atoms in found.items() if atoms}


class Questions:
    """Molecules to ask the model about, all at once, and what each is for."""

    def __init__(self) -> None:
        self.mols: list[Any] = []
        self.keys: list[tuple[int, str]] = []

    def add(self, number: int, what: str, mol: Any) -> None:
        """Notes a molecule that was made of one of the mutagens."""
        self.mols.append(mol)
        self.keys.append((number, what))

    def answers(self, model: Model) -> dict[int, dict[str, float]]:
        """Mean answer per molecule and purpose."""
        values: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for (number, what), p in zip(self.keys, model(self.mols), strict=True):
            values[number][what].append(p)
        for each in values.values():
            for what in ("alert", "random"):
                pairs = zip(each[f"{what} inserted"], each[f"{what} hosts"], strict=True)
                each[f"{what} moved"] = [abs(a - b) for a, b in pairs]
        return {
            number: {what: statistics.mean(some) for what, some in each.items() if some}
            for number, each in values.items()
        }


def measure(odd: bool, model: Model, options: argparse.Namespace) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(options.seed)
    mols, labels = read(odd)
    p = model(mols)
    order = torch.randperm(len(mols), generator=generator).tolist()
    harmless = [i for i in order if p[i] < 0.5][: options.hosts]
    start = time.process_time()
    hosts = Hosts(Anatomy(mols[i]) for i in harmless)
    links = sum(len(one.links) for one in hosts.anatomies)  # found when first asked for
    prepared = (time.process_time() - start) / len(harmless)
    kinds = {i: alerts(mols[i]) for i in order if p[i] > 0.5 and labels[i] == 1}
    chosen = [i for i in kinds if len(kinds[i]) == 1][: options.molecules]
    fillers = fillers_of(hosts.anatomies)
    count, asked = Counter[str]({"kinds of links": links}), Questions()
    times: dict[str, list[float]] = defaultdict(list, {"host": [prepared]})
    kind_of = {i: next(iter(kinds[i])) for i in chosen}

    def ask(number: int, what: str, graft: Graft, own: Anatomy) -> None:
        start = time.process_time()
        made, tried = insert_many(graft, hosts, options.grafts, generator)
        times["insert"].append((time.process_time() - start) / max(1, len(made)))
        count[f"{what} regions"] += 1
        count[f"{what} atoms"] += len(graft.atoms)
        count[f"{what} hosts that may fit"] += len(hosts.fitting(graft))
        count[f"{what} hosts tried"] += tried
        count[f"{what} fits nowhere"] += not made
        for host, mix in made:
            again = Chem.MolFromSmiles(Chem.MolToSmiles(mix.molecule))
            count[f"{what} made"] += 1
            count[f"{what} valid"] += again is not None
            asked.add(number, f"{what} inserted", mix.molecule)
            asked.add(number, f"{what} hosts", mols[harmless[host]])
        start = time.process_time()
        gone = remove(graft, own)
        swapped = [remove(graft, own, generator, fillers=fillers) for _ in range(4)]
        times["remove"].append((time.process_time() - start) / 5)
        for how, some in (("hydrogen", [gone]), ("neutral", swapped)):
            count[f"{what} {how} asked"] += len(some)
            for one in some:
                if one is not None:
                    count[f"{what} {how} made"] += 1
                    asked.add(number, f"{what} {how}", one.molecule)

    for number in chosen:
        own, atoms = Anatomy(mols[number]), kinds[number][kind_of[number]]
        graft, reason = graft_of(own, atoms)
        count["asked"] += 1
        count[reason or "graftable"] += 1
        if graft is None:
            continue
        asked.add(number, "own", mols[number])
        ask(number, "alert", graft, own)
        for _ in range(options.controls):
            start = time.process_time()
            control = random_region(own, graft, generator, avoid=atoms)
            times["random region"].append(time.process_time() - start)
            if control is None or {*control.atoms} & {*graft.atoms}:
                count["no control beside the alert"] += 1
                continue
            count["random of the same size"] += len(control.atoms) == len(graft.atoms)
            ask(number, "random", control, own)
    found = asked.answers(model)
    return {
        "half": "odd" if odd else "even",
        "kinds": table(found, kind_of),
        "counts": dict(count),
        "milliseconds": {what: 1000 * statistics.mean(some) for what, some in times.items()},
        "hosts": statistics.mean(p[i] for i in harmless),
        "alert moves more": more(found),
    }


def more(found: dict[int, dict[str, float]]) -> float:
    """Share of molecules whose alert raises hosts more than their random regions do."""
    rises = [
        [each[f"{what} inserted"] - each[f"{what} hosts"] for what in ("alert", "random")]
        for each in found.values()
        if {"alert inserted", "random inserted"} <= {*each}
    ]
    return statistics.mean(alert > other for alert, other in rises)


COLUMNS = ("alert hosts", "alert inserted", "alert moved", "random hosts", "random inserted",
           "random moved", "own", "alert hydrogen", "alert neutral", "random hydrogen",
           "random neutral")  # fmt: skip


def table(found: dict[int, dict[str, float]], kind_of: dict[int, str]) -> dict[str, Rows]:
    """Means over molecules, for every kind of toxicophore and for all."""
    groups = {name: [i for i in found if kind_of[i] == name] for name in TOXICOPHORES}
    groups = {name: ids for name, ids in groups.items() if ids} | {"all": list(found)}
    rows = {}
    for name, ids in groups.items():
        columns = {what: [found[i][what] for i in ids if what in found[i]] for what in COLUMNS}
        row = {what: statistics.mean(v) if v else math.nan for what, v in columns.items()}
        rows[name] = row | {"molecules": len(ids), "inserted": len(columns["alert inserted"])}
    return rows


def show(result: dict[str, Any]) -> None:
    print(f"\nindex {result['half']}, hosts {result['hosts']:.3f}")
    print("| kind | molecules | hosts | with alert | change | either way | hosts | with random "
          "| change | either way | own | alert to H | alert to neutral | random to H "
          "| random to neutral |")  # fmt: skip
    print("|---|" + "---:|" * 14)
    for name, row in result["kinds"].items():
        values = [row[what] for what in COLUMNS]
        for at in (2, 6):
            values.insert(at, values[at - 1] - values[at - 2])
        print(f"| {name} | {row['molecules']} | " + " | ".join(f"{v:.3f}" for v in values) + " |")
    print(f"the alert raises hosts more than random regions do: {result['alert moves more']:.1%}")
    print(result["counts"])
    print({what: round(value, 3) for what, value in result["milliseconds"].items()}, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecules", type=int, default=300, help="mutagens of each half")
    parser.add_argument("--hosts", type=int, default=400)
    parser.add_argument("--grafts", type=int, default=8, help="hosts per region")
    parser.add_argument("--controls", type=int, default=2, help="random regions per molecule")
    parser.add_argument("--networks", type=int, default=NETWORKS)
    parser.add_argument("--halves", default="odd,even")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    RDLogger.DisableLog("rdApp.*")
    model = Model(options.networks)
    results = []
    for half in options.halves.split(","):
        results.append(measure(half == "odd", model, options))
        show(results[-1])
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
