"""A dataset and a target as files, to be made once and used on other machines."""

from __future__ import annotations

from pathlib import Path

from hpme.bench.experiment import Experiment
from hpme.bench.outcome import recipe_of
from hpme.data.cache import default_root
from hpme.data.registry import dataset_path, load_dataset
from hpme.models.checkpoint import target_path
from hpme.storage import locked, write_atomically

Bundle = dict[str, bytes]
"""Content of files by their path in the cache."""


def is_prepared(experiment: Experiment) -> bool:
    """Whether the dataset and the target of an experiment are in the cache; nothing is made."""
    return _dataset_path(experiment).exists() and _target_path(experiment).exists()


def pack(experiment: Experiment) -> Bundle:
    """The files of an experiment whose dataset and target are in the cache."""
    dataset = _dataset_path(experiment)
    files = [dataset, dataset.with_suffix(".json"), _target_path(experiment)]
    root = default_root()
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in files}


def unpack(bundle: Bundle) -> None:
    """Puts files into the cache that are not there yet."""
    paths = {default_root() / name: content for name, content in bundle.items()}
    with locked(next(iter(paths))):  # the dataset, which is two files
        for path, content in paths.items():
            if not path.exists():
                write_atomically(path, content)


def _dataset_path(experiment: Experiment) -> Path:
    return dataset_path(experiment.dataset, variant=experiment.variant, size=experiment.size)


def _target_path(experiment: Experiment) -> Path:
    dataset = load_dataset(
        experiment.dataset, variant=experiment.variant, size=experiment.size, progress=False
    )
    recipe = recipe_of(dataset, experiment.train_steps)
    return target_path(dataset, experiment.model, experiment.target_seed, recipe=recipe)
