"""Does HPME work for every seed and every target? Datasets x explainer seeds x target seeds.

    python benchmarks/robustness.py --seeds 300-309 --targets 0,1
    python benchmarks/robustness.py --seeds 300-302 --targets 0 --variants ablations
    python benchmarks/robustness.py --table docs/results/robustness.md

One line per finished run is appended to ``--records``; runs that are there are not repeated, so
the benchmark may be killed and started again. ``--table`` writes the tables from the records
without running anything.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

from hpme.bench import Experiment, Target, explain, parse_seeds, record_of
from hpme.data import load_dataset

PAPER = {
    "ba-2motifs": 0.971,
    "ba-housegrid": 0.965,
    "ba-houseandgrid": 0.979,
    "ba-motif-volume": 0.997,
    "ba-motif-counting": 0.946,
    "house-grid-volume": 0.966,
    "house-orgrid-volume": 0.941,
    "spmotif": 0.748,
    "triangles": 0.648,
}
ABLATIONS: dict[str, dict[str, Any]] = {
    "one restart": {"restarts": 1},
    "one round": {"rounds": 1},
    "two rounds": {"rounds": 2},
    "8 subsets": {"subsets": 8},
    "boundary by rank (paper)": {"attach": "rank"},
    "any host": {"neighbor": "random"},
    "ratio chosen without labels": {"ratio": "auto"},
    "edge score": {"score": "edge"},
    "node score": {"score": "node"},
    "gradient search": {"search": "gradient"},
    "gradient w/o Mix": {"search": "gradient", "mixup": False},
    "gradient w/o BCE": {"search": "gradient", "bce_weight": 0.0},
    "ratio x 0.7": {"ratio": 0.7},
    "ratio x 1.5": {"ratio": 1.5},
}
"""What is changed from the default. A ratio here is a factor of the ground-truth ratio."""


def key(record: dict[str, Any]) -> tuple[str, str, int, int]:
    return record["dataset"], record["variant"], record["seed"], record["target_seed"]


def read(path: Path) -> list[dict[str, Any]]:
    """Finished runs; a line cut short by a kill is left out and so run again."""
    records = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            print("leaving out a damaged line", file=sys.stderr)
    return records


def run(dataset_name: str, variant: str, seed: int, target_seed: int) -> dict[str, Any]:
    dataset = load_dataset(dataset_name)
    target = Target.prepare(dataset, "gcn", target_seed)
    options = dict(ABLATIONS.get(variant, {}))
    if isinstance(options.get("ratio"), float):
        options["ratio"] = min(1.0, options["ratio"] * dataset.pool_ratio)
    start = time.process_time()
    experiment = Experiment(dataset_name, "hpme", seed, target_seed=target_seed, options=options)
    record = record_of(explain(experiment, dataset, target))
    report = record.context["report"]
    return {
        "dataset": dataset_name,
        "variant": variant,
        "seed": seed,
        "target_seed": target_seed,
        "auc": round(record.values["auc"], 4),
        "cpu_seconds": round(time.process_time() - start, 1),
        "separation": round(report["separation"], 3),
        "agreement": None if report["agreement"] is None else round(report["agreement"], 3),
        "warnings": len(report["warnings"]),
        "target": {k: round(v, 4) for k, v in record.context["target_metrics"]["test"].items()},
    }


def spread(values: list[float]) -> str:
    mean, std = statistics.fmean(values), statistics.pstdev(values)
    return f"{mean:.3f} ± {std:.3f}"


def main_table(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| dataset | paper | runs | AUC, mean ± std | worst | below 0.85 | of them warned | "
        "warned in all | separation | agreement | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, paper in PAPER.items():
        rows = [r for r in records if r["dataset"] == name and r["variant"] == "default"]
        if not rows:
            continue
        auc = [r["auc"] for r in rows]
        low = [r for r in rows if r["auc"] < 0.85]
        agreement = [r["agreement"] for r in rows if r["agreement"] is not None]
        lines.append(
            f"| {name} | {paper:.3f} | {len(rows)} | {spread(auc)} | {min(auc):.3f} | {len(low)} | "
            f"{sum(r['warnings'] > 0 for r in low)} | {sum(r['warnings'] > 0 for r in rows)} | "
            f"{statistics.fmean(r['separation'] for r in rows):.2f} | "
            f"{statistics.fmean(agreement):.2f} | "
            f"{statistics.fmean(r['cpu_seconds'] for r in rows):.0f} |"
        )
    return lines


def target_table(records: list[dict[str, Any]]) -> list[str]:
    lines = ["| dataset | target seed | test metric |", "|---|---|---|"]
    seen = {(r["dataset"], r["target_seed"]): r["target"] for r in records}
    for (name, seed), metrics in sorted(
        seen.items(), key=lambda item: list(PAPER).index(item[0][0])
    ):
        shown = ", ".join(f"{k} {v:g}" for k, v in metrics.items() if k != "loss")
        lines.append(f"| {name} | {seed} | {shown} |")
    return lines


def ablation_table(records: list[dict[str, Any]]) -> list[str]:
    variants = [v for v in ["default", *ABLATIONS] if any(r["variant"] == v for r in records)]
    compared = {(r["dataset"], r["seed"], r["target_seed"])
                for r in records if r["variant"] != "default"}  # fmt: skip
    names = [name for name in PAPER if any(name == key[0] for key in compared)]
    lines = ["| variant | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for variant in variants:
        cells = []
        for name in names:
            auc = [r["auc"] for r in records if r["variant"] == variant and r["dataset"] == name
                   and (name, r["seed"], r["target_seed"]) in compared]  # fmt: skip
            cells.append(f"{statistics.fmean(auc):.3f} [{min(auc):.3f}]" if auc else "-")
        lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", default=",".join(PAPER))
    parser.add_argument("--seeds", default="")
    parser.add_argument("--targets", default="0,1")
    parser.add_argument("--variants", default="default", help="'default', 'ablations' or names")
    parser.add_argument("--records", type=Path, default=Path("docs/results/robustness.jsonl"))
    parser.add_argument("--table", type=Path, help="rewrite the tables between the marks of a page")
    options = parser.parse_args()
    torch.set_num_threads(1)
    records = read(options.records)
    done = {key(record) for record in records}
    variants = list(ABLATIONS) if options.variants == "ablations" else options.variants.split(",")
    options.records.parent.mkdir(parents=True, exist_ok=True)
    for seed in parse_seeds(options.seeds) if options.seeds else []:
        for target_seed in parse_seeds(options.targets):
            for name in options.datasets.split(","):
                for variant in variants:
                    if (name, variant, seed, target_seed) in done:
                        continue
                    record = run(name, variant, seed, target_seed)
                    with options.records.open("a") as file:
                        file.write(json.dumps(record) + "\n")
                    print(json.dumps(record), flush=True)
                    records.append(record)
    tables = {
        "runs": main_table(records),
        "targets": target_table(records),
        "ablations": ablation_table(records),
    }
    if options.table:
        page = options.table.read_text()
        for name, lines in tables.items():
            start, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
            before, rest = page.split(start, 1)
            page = before + start + "\n".join(lines) + "\n" + end + rest.split(end, 1)[1]
        options.table.write_text(page)
    else:
        print("\n\n".join("\n".join(lines) for lines in tables.values()))


if __name__ == "__main__":
    main()
