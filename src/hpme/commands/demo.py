"""``hpme demo``: everything once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hpme.commands.explain import EFFECT_DRAWS, what_is_missing
from hpme.commands.options import GraphsOption, SizeOption, StepsOption
from hpme.commands.run import announce, draw, prepare, show, summary, write_summary
from hpme.commands.shared import check_writable, command, usage

TITLE, CLASSES = "Explanations of a GCN on BA-2Motifs", ("ring", "house")
"""Of the page, and what graphs of the two classes have."""


@command
def demo(
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder to write to.")] = Path(
        "out/demo"
    ),
    size: SizeOption = None,
    graphs: GraphsOption = 200,
    train_steps: StepsOption = None,
) -> None:
    """Explain a GCN on BA-2Motifs with HPME: a page, pictures, a result file, the explainer."""
    from hpme.bench import Experiment, run_on
    from hpme.data import load_dataset
    from hpme.models import ExplainedModel
    from hpme.page import write_page

    names = ("gallery.png", "result.json", "explainer.safetensors", "page.html", "transplant.png")
    files = [out / name for name in names]
    for path in files:
        usage("--out", check_writable, path)
    dataset = load_dataset("ba-2motifs", size=size)
    target = prepare(dataset, "gcn", 0, train_steps, quiet=False)
    experiment = Experiment(
        "ba-2motifs", "hpme", 0, size=size, graphs=graphs, train_steps=train_steps
    )
    record, outcome = run_on(experiment, dataset, target, progress=True)
    announce(outcome, record)
    draw(outcome, files[0])
    write_summary(summary([record]), files[1])
    assert outcome.explainer is not None
    outcome.explainer.save(files[2])
    explained = list(outcome.explanations)
    model = ExplainedModel.of(target.model, classes=CLASSES)
    found = outcome.explainer.quality(model, explained)
    outcome.explainer.effects(model, explained, draws=EFFECT_DRAWS)
    houses = [one.carried_low * (one.output == f"p({CLASSES[1]})") for one in found]
    explained[houses.index(max(houses))].proof(files[4])
    given = outcome.explainer, model, model.read(outcome.graphs), explained
    more: dict[str, Any] = {"reports": {"hpme": outcome.explainer.report}, "progress": True}
    more |= {"counterfactuals": what_is_missing(*given), "title": TITLE}
    write_page(model, outcome.graphs, {"hpme": explained}, files[3], **more)
    show(summary([record]))
    typer.echo("\nwritten:")
    for path in files:
        typer.echo(f"  {path}")
    typer.echo(
        f"\nOpen {files[3]} in a browser: every graph has a house or a ring of five, and the page "
        "shows which of them take the prediction along when they are moved into other graphs."
    )
