"""How fast ``hpme apply`` is, against RDKit that only parses the same SMILES.

    python benchmarks/apply.py [--sizes 10000,100000] [--workers 1,2] [--json FILE] [--plot FILE]

The molecules are those of Benzene, repeated until there are enough. RDKit parses them in a process
of its own, ``hpme apply`` explains them in one of its own, with everything that takes: start,
reading, model, masks, Parquet. CPU seconds are those of a process and its children; where the
machine is busy with other work, they tell more than the clock.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from safetensors.torch import save_model

from hpme.data import load_dataset
from hpme.explainers import HPMEExplainer
from hpme.models import Recipe, load_or_train

MODULE = """
def build():
    from hpme.models import GCN

    return GCN(14, 2)
"""
PARSE = """
import csv, sys
from rdkit import Chem
with open(sys.argv[1], newline="") as file:
    for row in csv.reader(file):
        Chem.MolFromSmiles(row[0])
"""
APPLY = "import sys; from hpme.cli import main; sys.exit(main())"


def prepare(folder: Path) -> list[str]:
    """A model, a fitted explainer, and the SMILES of Benzene."""
    dataset = load_dataset("benzene")
    model = load_or_train(dataset, "gcn", recipe=Recipe(max_steps=300))[0]
    explainer = HPMEExplainer(ratio=0.3, restarts=1)
    explainer.fit(model, dataset[:200]).save(folder / "explainer.safetensors")
    (folder / "my_model.py").write_text(MODULE)
    save_model(model, str(folder / "weights.safetensors"))
    return [graph.smiles for graph in dataset]


def measured(command: list[str], folder: Path) -> dict[str, float]:
    """Seconds by the clock and of all processors, and the peak memory of the largest process."""
    code = (
        "import json, resource, subprocess, sys, time\n"
        "start = time.monotonic()\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([time.monotonic() - start, used.ru_utime + used.ru_stime, "
        "used.ru_maxrss / 1024]))\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        cwd=folder, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    seconds, cpu, peak = json.loads(done.stdout.splitlines()[-1])
    return {"seconds": seconds, "cpu_seconds": cpu, "peak_mib": peak}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--workers", default="1")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    result: list[dict] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        smiles = prepare(folder)
        for size in map(int, options.sizes.split(",")):
            table = folder / "molecules.csv"
            with table.open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["smiles"])
                writer.writerows([smiles[i % len(smiles)]] for i in range(size))
            row = {"molecules": size, "rdkit": measured([sys.executable, "-c", PARSE, str(table)],
                                                        folder)}  # fmt: skip
            for workers in options.workers.split(","):
                command = [sys.executable, "-c", APPLY, "apply", "explainer.safetensors"]
                command += ["-m", "my_model:build", "--weights", "weights.safetensors"]
                command += ["-d", str(table), "--out", f"{size}-{workers}", "--workers", workers]
                row[f"workers {workers}"] = cost = measured(command, folder)
                ratio = cost["cpu_seconds"] / row["rdkit"]["cpu_seconds"]
                print(
                    f"{size:,} molecules, {workers} workers: {cost['seconds']:.1f} s, "
                    f"{cost['cpu_seconds']:.1f} CPU-s, {ratio:.2f}x RDKit's parsing "
                    f"({row['rdkit']['cpu_seconds']:.1f} CPU-s), peak {cost['peak_mib']:.0f} MiB",
                    flush=True,
                )
            result.append(row)
            if options.json:
                options.json.parent.mkdir(parents=True, exist_ok=True)
                options.json.write_text(json.dumps(result, indent=2) + "\n")
    if options.plot:
        plot(result, options.plot)


def plot(result: list[dict], path: Path) -> None:
    """CPU seconds over the number of molecules, both on logarithmic scales."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 3.5), layout="constrained")
    sizes = [row["molecules"] for row in result]
    for key, label in (("rdkit", "RDKit parses"), ("workers 1", "hpme apply, one core")):
        axes.plot(sizes, [row[key]["cpu_seconds"] for row in result], "o-", label=label)
    axes.plot(sizes, [3 * row["rdkit"]["cpu_seconds"] for row in result], ":", c="gray",
              label="3 x RDKit")  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="molecules", ylabel="CPU seconds")
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
