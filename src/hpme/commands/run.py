"""``hpme run``: one explainer on one dataset, over seeds."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpme.commands import catalog
from hpme.commands.options import (
    OWN,
    DeviceOption,
    GraphsOption,
    HydrogensOption,
    NameColumnOption,
    OptionsOption,
    QuietOption,
    RuleOption,
    SizeOption,
    SmilesColumnOption,
    StepsOption,
)
from hpme.commands.shared import (
    check_device,
    check_writable,
    command,
    known,
    list_skipped,
    number,
    parse_options,
    parse_rules,
    refuse,
    say,
    usage,
)
from hpme.commands.summary import announce, draw, prepare, show, summary, write_summary
from hpme.limits import MAX_SEED

if TYPE_CHECKING:
    from hpme.bench import Record
    from hpme.data import GraphDataset


class TaskName(str, Enum):
    """What the labels of a user's molecules are."""

    classification = "classification"
    regression = "regression"


class OnErrorName(str, Enum):
    """What to do with a row that is no molecule."""

    skip = "skip"
    stop = "raise"


DatasetOption = Annotated[
    str | None, typer.Option("--dataset", "-d", help="See: hpme list datasets.")
]
ExplainerOption = Annotated[
    str, typer.Option("--explainer", "-e", help="See: hpme list explainers.")
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="Model to explain, see: hpme list models [default: gcn, hetero for graphs with types; "
        "for explainers made for another one that].",
    ),
]
SeedsOption = Annotated[
    str,
    typer.Option(
        "--seeds",
        "-s",
        help="Seeds of the explainer and of the choice of graphs: 0-4, or 0,3,7, or 0-2,7.",
    ),
]
VariantOption = Annotated[
    str | None,
    typer.Option(help="See: hpme list datasets; by default the first that the dataset has."),
]
TargetSeedOption = Annotated[
    int, typer.Option(min=0, max=MAX_SEED, help="Seed the model is trained with.")
]
JsonOption = Annotated[
    Path | None,
    typer.Option("--json", dir_okay=False, help="Result file, rewritten after every seed."),
]
GalleryOption = Annotated[
    Path | None,
    typer.Option(
        "--gallery", dir_okay=False, help="Picture (.png or .svg) of some graphs of the first seed."
    ),
]
SmilesOption = Annotated[
    Path | None,
    typer.Option(
        "--smiles",
        exists=True,
        dir_okay=False,
        rich_help_panel=OWN,
        help="CSV file of molecules with a header, in place of --dataset.",
    ),
]
LabelColumnOption = Annotated[
    str | None,
    typer.Option(rich_help_panel=OWN, help="Column of the labels; without it, rules give them."),
]
TaskOption = Annotated[
    TaskName | None,
    typer.Option(rich_help_panel=OWN, help="What the labels are [default: classification]."),
]
OnErrorOption = Annotated[
    OnErrorName | None,
    typer.Option(
        rich_help_panel=OWN,
        help="Skip rows that are no molecule or have no label, or stop [default: skip].",
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        rich_help_panel=OWN,
        help="Processes that read molecules [default: one, for many molecules one per processor].",
    ),
]
OutOption = Annotated[
    Path,
    typer.Option(
        "--out", file_okay=False, help="Folder of the results; seeds that are in it are done."
    ),
]


@command
def run(
    dataset: DatasetOption = None,
    explainer: ExplainerOption = "hpme",
    model: ModelOption = None,
    seeds: SeedsOption = "0",
    variant: VariantOption = None,
    graphs: GraphsOption = 200,
    target_seed: TargetSeedOption = 0,
    option: OptionsOption = None,
    size: SizeOption = None,
    train_steps: StepsOption = None,
    json_file: JsonOption = None,
    gallery_file: GalleryOption = None,
    smiles: SmilesOption = None,
    smiles_column: SmilesColumnOption = None,
    label_column: LabelColumnOption = None,
    name_column: NameColumnOption = None,
    rule: RuleOption = None,
    task: TaskOption = None,
    on_error: OnErrorOption = None,
    hydrogens: HydrogensOption = False,
    workers: WorkersOption = None,
    out: OutOption = Path("out/run"),
    device: DeviceOption = None,
    quiet: QuietOption = False,
) -> None:
    """Explain a model on a dataset and score the explanations against the ground truth.

    The model is trained first, or taken from the cache. For every seed the explainer is fitted to
    the same graphs it then explains; AUC is the ROC-AUC of edge scores pooled over all of them.

    Every finished seed is kept: a run that was stopped goes on where it was when started again.

    Exit codes: 0 done, 1 failed while running, 2 wrong usage.
    """
    known("--explainer", "explainer", explainer, catalog.names("explainers"))
    if model is not None:
        known("--model", "model", model, catalog.names("models"))
    own: dict[str, Any] = {
        "smiles_column": smiles_column,
        "label_column": label_column,
        "name_column": name_column,
        "rules": usage("--rule", parse_rules, rule or []),
        "task": task and task.value,
        "on_error": on_error and on_error.value,
        "hydrogens": hydrogens,
        "workers": workers,
    }
    _check_source(dataset, smiles, variant, own)
    from hpme.bench import Experiment, Plan, ResultStore, parse_seeds, run_on
    from hpme.data import from_smiles_csv, load_dataset
    from hpme.explainers import EXPLAINERS
    from hpme.explainers.registry import make_explainer
    from hpme.models.registry import default_name
    from hpme.viz import check_picture_path

    numbers = usage("--seeds", parse_seeds, seeds)
    place = usage("--device", check_device, device or "cpu")
    options = usage("--option", parse_options, option or [])
    if gallery_file is not None:
        usage("--gallery", check_picture_path, gallery_file)
    usage("--json", check_writable, json_file)
    usage("--gallery", check_writable, gallery_file)
    loaded: GraphDataset
    if smiles is None:
        load = functools.partial(load_dataset, variant=variant, size=size, progress=not quiet)
        loaded = usage("--variant", load, dataset)
    else:
        given = {name: value for name, value in own.items() if value}
        loaded = from_smiles_csv(smiles, size=size, progress=not quiet, **given)
        out = out / _name_of(smiles, given)
        list_skipped(loaded, out / "skipped.csv", quiet=quiet)
    if model is None and loaded.schema is not None:
        model = default_name(hetero=True)
    model = model or EXPLAINERS[explainer].default_model
    usage("--option", make_explainer, explainer, loaded, numbers[0], options)
    experiments = [
        Experiment(
            loaded.info.name,
            explainer,
            seed,
            model=model,
            variant=variant,
            size=size,
            target_seed=target_seed,
            graphs=graphs,
            options=options,
            train_steps=train_steps,
        )
        for seed in numbers
    ]
    store = ResultStore(out)
    usage("--out", check_writable, store.path())
    done = {record.experiment.seed: record for record in Plan.of(experiments, store).done}
    if gallery_file is not None:
        done.pop(numbers[0], None)  # a result does not keep what is drawn
    target = None
    records: list[Record] = []
    for experiment in experiments:
        record = done.get(experiment.seed)
        if record is None:
            if target is None:
                target = prepare(loaded, model, target_seed, train_steps, quiet=quiet)
                target.model.to(place)
            record, outcome = run_on(experiment, loaded, target, progress=not quiet)
            store.put(record)
            if gallery_file is not None and experiment.seed == numbers[0]:
                draw(outcome, gallery_file)
            if not quiet:
                announce(outcome, record)
        elif not quiet:
            auc = number(record.values["auc"])
            say(f"seed {experiment.seed}: AUC {auc}, from an earlier run; see {out}")
        records.append(record)
        if json_file is not None:
            write_summary(summary(records), json_file)
    if not quiet:
        show(summary(records))


def _check_source(
    dataset: str | None, smiles: Path | None, variant: str | None, own: Mapping[str, Any]
) -> None:
    """Refuses options that would do nothing where the graphs come from."""
    if (dataset is None) == (smiles is None):
        refuse("give one of --dataset and --smiles", "--dataset")
    if dataset is not None:
        known("--dataset", "dataset", dataset, catalog.names("datasets"))
        for name, value in own.items():
            if value:
                option = "rule" if name == "rules" else name.replace("_", "-")
                refuse("belongs to --smiles", f"--{option}")
        return
    if variant is not None:
        refuse("belongs to --dataset", "--variant")
    if own["label_column"] is None and not own["rules"]:
        refuse("give the column of the labels, or a --rule to label by", "--label-column")
    if own["label_column"] is None and own["task"] == "regression":
        refuse("regression needs labels; rules give classes", "--label-column")


def _name_of(table: Path, options: Mapping[str, Any]) -> str:
    """A name for a user's molecules that changes with them."""
    content = table.read_bytes() + repr(sorted(options.items())).encode()
    return f"{table.stem}-{hashlib.sha256(content).hexdigest()[:12]}"
