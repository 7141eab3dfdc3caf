"""``hpme explain``: anybody's model on anybody's graphs, as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpme.commands import catalog, options, shared
from hpme.errors import HPMEError

if TYPE_CHECKING:
    from hpme.commands.inputs import Inputs
    from hpme.explainers import GraphExplainer
    from hpme.graphs import GraphStore
    from hpme.models.explained import ExplainedModel

HPME, ANSWERS = "hpme", ("rules", "counterfactuals")
EFFECT_DRAWS = 4
"""What takes the place of each node, to see whether it raises or lowers the output."""
MISSING = 40
"""Graphs for which what is missing is looked for, unless counterfactuals of all are asked."""
FIRST = "a first answer, the best of two cheap attributions: leave out --quick for the full search"
SAID = 3
"""Graphs whose evidence is printed; the page tells that of all."""


@shared.command
def explain(
    inputs: options.InputOptions,
    table: options.TableOptions,
    chemprop: options.ChempropOptions,
    explainer: Annotated[
        str, typer.Option("--explainer", "-e", help="Names from hpme list explainers, with commas.")
    ] = "hpme",
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A first answer in seconds: HPME without its long search."),
    ] = False,
    out: Annotated[Path, typer.Option(dir_okay=False, help="The page to write.")] = Path(
        "page.html"
    ),
    graphs: options.GraphsOption = 200,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    save_explainer: Annotated[
        Path | None,
        typer.Option(file_okay=False, metavar="DIR", help="Folder for the fitted explainers."),
    ] = None,
    beyond: Annotated[
        str | None,
        options.beyond_one_graph(
            "--with",
            metavar="rules,counterfactuals",
            help="What else the page says, by HPME: what the model has learned, what would change "
            "its answers.",
        ),
    ] = None,
    threshold: options.ThresholdOption = None,
    should: Annotated[
        str | None,
        options.beyond_one_graph(metavar="SMARTS", help="Pattern that should matter, to audit."),
    ] = None,
    should_not: options.ShouldNotOption = None,
) -> None:
    """Explain your own trained model: one HTML page that opens without a network.

    Explainers learn from the graphs alone; labels and ground truth, if there are any, are only
    shown. The page says what the model predicts on the edges an explanation keeps, and without
    them.

    Exit codes: 0 done, 1 failed while running, 2 wrong usage.
    """
    names = list(dict.fromkeys(name.strip() for name in explainer.split(",") if name.strip()))
    if not names:
        shared.refuse("name at least one explainer", "--explainer")
    for name in names:
        shared.known("--explainer", "explainer", name, catalog.names("explainers"))
    if quick and HPME not in names:
        shared.refuse("is about the explainer hpme", "--quick")
    chemprop.check(inputs.model)
    asked = [word.strip() for word in (beyond or "").split(",") if word.strip()]
    for word in asked:
        shared.known("--with", "answer", word, ANSWERS)
    if threshold is not None and "counterfactuals" not in asked:
        shared.refuse("belongs to --with counterfactuals", "--threshold")
    if should_not is not None and should is None:
        shared.refuse("needs --should, the pattern that should matter", "--should-not")
    shared.check_patterns(should, should_not)
    if (asked or should is not None) and HPME not in names:
        shared.refuse("rules, counterfactuals and audits need the explainer hpme", "--explainer")
    from hpme.commands.inputs import check_threshold, make_explainers, read_inputs
    from hpme.explainers.hpme.explainer import QUICK

    make = partial(make_explainers, **(QUICK if quick else {}))
    explainers = shared.usage("--option", make, names, inputs)
    shared.usage("--out", shared.check_writable, out, ".html", ".htm")
    if save_explainer is not None:
        shared.usage(
            "--save-explainer", shared.check_writable, save_explainer / f"{names[0]}.safetensors"
        )
    skipped = out.with_suffix(".skipped.csv")
    read = read_inputs(inputs, table, chemprop=chemprop, count=graphs, skipped=skipped)
    if "counterfactuals" in asked:
        check_threshold(read, threshold)
    explanations = {}
    for name, one in explainers.items():
        one.fit(read.model, read.fitted, target=read.model.target, progress=not inputs.quiet)
        explanations[name] = explanations_of(one, read, quiet=inputs.quiet)
        if not inputs.quiet:
            _announce(name, one, explanations[name], read)
        if save_explainer is not None:
            one.save(save_explainer / f"{name}.safetensors")
    more: dict[str, dict[str, Any]] = {
        "rules": {"progress": not inputs.quiet},
        "counterfactuals": {"threshold": threshold, "progress": not inputs.quiet},
        "audit": {"should": should, "should_not": should_not},
    }
    answers, failed = {}, None
    for name in [*asked, *([] if should is None else ["audit"])]:
        try:
            answers[name] = getattr(explainers[HPME], name)(read.model, read.store, **more[name])
        except HPMEError as error:  # a page without this answer is better than none
            shared.say(f"{name}: left out of the page", style="yellow")
            failed = failed or error
    if quick:  # a reader of the page should know as well
        titles = {name: f"{name}, quick" if name == HPME else name for name in explainers}
        explainers = {titles[name]: one for name, one in explainers.items()}
        explanations = {titles[name]: found for name, found in explanations.items()}
        if not inputs.quiet:
            shared.say(FIRST)
    save_page(read, explainers, explanations, out, inputs, title=title, **answers)
    if failed is not None:
        raise failed


def _announce(name: str, explainer: Any, explanations: Sequence[Any], read: Inputs) -> None:
    from hpme.page.entries import names_of

    ratio = getattr(getattr(explainer, "size", None), "ratio", None)
    shared.say(
        f"{name}: done" + ("" if ratio is None else f", explanations of {ratio:.0%} of the nodes")
    )
    if getattr(explainer, "report", None) is not None:
        shared.say(f"  {explainer.report.summary()}")
    pairs = zip(names_of(read.graphs, read.numbers), explanations, strict=True)
    told = [(graph, item.quality) for graph, item in pairs if item.get("quality")]
    if told:
        counts = Counter(quality.verdict for _, quality in told).most_common()
        shown = ", ".join(f"{word} {count:,}" for word, count in counts)
        shared.say(f"  what predictions rest on: {shown}")
    for graph, quality in told[:SAID]:
        shared.say(f"  {graph}: {quality.sentence()}")


def explanations_of(explainer: GraphExplainer, read: Inputs, *, quiet: bool) -> list[Any]:
    """Explanations by a fitted explainer, with their quality if it is known."""
    from hpme.explainers.shared.explanation import set_quality

    found = list(explainer.explain(read.model, read.store, progress=not quiet))
    if hasattr(explainer, "quality"):
        asked = read.model, read.store
        answers = explainer.quality(*asked), explainer.effects(*asked, draws=EFFECT_DRAWS)
        for item, quality, effect in zip(found, *answers, strict=True):
            set_quality(item, quality)
            item.effect = effect
    return found


def what_is_missing(
    explainer: Any, model: ExplainedModel, store: GraphStore, explanations: Sequence[Any]
) -> list[Any] | None:
    """The smallest counterfactual of graphs in which nothing carries the prediction, to show what
    would have to be there; ``None`` for others."""
    import torch

    verdicts = [getattr(one.get("quality"), "verdict", None) for one in explanations]
    absent = [number for number, verdict in enumerate(verdicts) if verdict == "absence"][:MISSING]
    if not absent or model.view.mode == "regression":  # values have no nearest other answer
        return None
    part = store.subset(torch.tensor(absent))
    changes: list[Any] = [None] * len(store)
    try:
        found = explainer.counterfactuals(model, part, 1, donors=store, progress=False)
    except HPMEError:  # the page says how to ask for them
        return None
    for number, some in zip(absent, found, strict=True):
        changes[number] = some
    return changes


def save_page(
    read: Inputs,
    explainers: Mapping[str, GraphExplainer],
    explanations: Mapping[str, Sequence[Any]],
    out: Path,
    asked: options.InputOptions,
    **more: Any,
) -> None:
    """Writes the page, and says where it is; ``more`` goes to :func:`~hpme.page.write_page`."""
    from hpme.page import write_page
    from hpme.page.entries import names_of

    ours = next((name for name in explainers if name.partition(",")[0] == HPME), None)
    if more.get("counterfactuals") is None and ours is not None:
        given = explainers[ours], read.model, read.store, explanations[ours]
        more["counterfactuals"] = what_is_missing(*given)
    write_page(
        read.model,
        read.graphs,
        explanations,
        out,
        names=names_of(read.graphs, read.numbers),
        metrics=_spread(read, quiet=asked.quiet),
        reports={name: getattr(one, "report", None) for name, one in explainers.items()},
        seed=asked.seed,
        progress=not asked.quiet,
        store=read.store,
        **more,
    )
    shared.tell(str(out), quiet=asked.quiet)


def _spread(read: Inputs, *, quiet: bool) -> dict[str, list[float]] | None:
    """How far the networks of an ensemble disagree about every graph, if it is one."""
    from hpme.models.chemprop.files import spread_of

    found = spread_of(read.model, read.graphs)
    if found is not None and not quiet:
        mean, most = (f"±{float(value):.2g}" for value in (found.mean(), found.max()))
        shared.say(f"networks of the ensemble differ by {mean} on average, at most {most}")
    return None if found is None else {"spread of the ensemble": found.tolist()}
