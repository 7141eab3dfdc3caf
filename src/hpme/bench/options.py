"""Explainers by name, built from options that are checked before any work starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpme.data import GraphDataset
from hpme.data.dataset import DEFAULT_POOL_RATIO
from hpme.errors import InputError
from hpme.explainers import GraphExplainer, explainer_class


def option_names(name: str) -> list[str]:
    """Names of the options an explainer takes, without the seed."""
    return [option for option in explainer_class(name).option_names() if option != "seed"]


def make_explainer(
    name: str, dataset: GraphDataset | None, seed: int, options: Mapping[str, Any] | None = None
) -> tuple[GraphExplainer, str | None]:
    """An unfitted explainer, and where its pool ratio comes from (``None`` if it has none).

    The ratio of explainers that pool nodes is the dataset's
    :attr:`~hpme.data.GraphDataset.pool_ratio` unless ``ratio`` or ``k`` is among the options; it is
    all that any explainer is told about the ground truth. Where there is none, or no dataset,
    those that can choose the ratio without labels do (``"auto"``) and others get a default.

    Raises:
        UnknownNameError: If there is no such explainer.
        InputError: If it does not take one of the options, or not with this value.
    """
    explainer, options = explainer_class(name), dict(options or {})
    valid = option_names(name)
    unknown = [option for option in options if option not in valid]
    if unknown:
        raise InputError(
            f"'{name}' has no option '{unknown[0]}'; valid options: {', '.join(valid)}"
        )
    source = None
    if "ratio" in valid:
        source = "option"
        if not {"ratio", "k"} & options.keys():
            told = dataset is not None and dataset.has_ground_truth
            source = "ground truth" if told else "default"
            options["ratio"] = DEFAULT_POOL_RATIO if dataset is None else dataset.pool_ratio
            if source == "default" and explainer.chooses_size:
                source = options["ratio"] = "auto"
        elif options.get("ratio") == "auto":
            source = "auto"
    try:
        return explainer(seed=seed, **options), source
    except TypeError as error:  # a comparison of the wrong types, such as 'high' < 1
        raise InputError(f"an option of '{name}' has the wrong type: {error}") from error
