"""What identifies an experiment."""

from dataclasses import fields, replace

import pytest

from hpme.bench import Experiment
from hpme.errors import InputError

BASE = Experiment("ba-2motifs", "hpme", 100)
CHANGES = {
    "fit_graphs": 25,
    "dataset": "triangles",
    "explainer": None,
    "seed": 101,
    "model": "gin",
    "variant": "published",
    "size": 50,
    "target_seed": 1,
    "graphs": 10,
    "options": {"ratio": 0.3},
    "metrics": ("auc", "shift"),
    "train_steps": 7,
}


def test_the_key_is_stable():
    """A change of this key makes every stored result worthless: raise RESULT_VERSION instead."""
    assert BASE.earlier_key == "6015f87524040c4359e1"
    assert replace(BASE, explainer="grad").key == replace(BASE, explainer="grad").earlier_key


def test_an_explainer_that_has_changed_has_other_keys():
    assert BASE.key != BASE.earlier_key


@pytest.mark.parametrize("name", [field.name for field in fields(Experiment)])
def test_every_field_is_part_of_the_key(name):
    assert replace(BASE, **{name: CHANGES[name]}).key != BASE.key


def test_the_order_of_options_does_not_matter():
    one = replace(BASE, options={"ratio": 0.3, "restarts": 2})
    other = replace(BASE, options={"restarts": 2, "ratio": 0.3})
    assert one.key == other.key


def test_from_dict_is_the_inverse_of_to_dict():
    experiment = replace(BASE, **CHANGES)
    assert Experiment.from_dict(experiment.to_dict()) == experiment


@pytest.mark.parametrize("values", [{}, {"metrics": []}, {**BASE.to_dict(), "colour": 1}])
def test_anything_else_is_refused(values):
    with pytest.raises(InputError, match="not an experiment"):
        Experiment.from_dict(values)


def test_targets_are_shared_by_experiments_that_differ_in_the_explanation_alone():
    assert replace(BASE, explainer="grad", seed=1, graphs=3, options={}).target == BASE.target
    for name in ("dataset", "variant", "size", "model", "target_seed", "train_steps"):
        assert replace(BASE, **{name: CHANGES[name]}).target != BASE.target
