"""Constructor arguments: their annotations say what they may be."""

import inspect
from typing import Annotated, Any, Literal

import pytest
from torch_geometric.explain import ExplainerAlgorithm

from contract import EXPLAINERS, SLUGS
from hpme.errors import InputError
from hpme.explainers import GNNExplainer, GraphExplainer, describe_options
from hpme.explainers.shared.options import (
    Constraint,
    Count,
    Positive,
    Share,
    check_options,
    constraint_of,
    constraints_of,
    one_of,
    real,
    whole,
)


@pytest.mark.parametrize("slug", SLUGS)
def test_every_option_is_declared_and_described(slug):
    kind = EXPLAINERS[slug]
    described = describe_options(kind)
    assert [option.name for option in described] == kind.option_names()
    assert set(constraints_of(kind)) == set(kind.option_names())
    for option in described:
        assert option.constraint and option.meaning, option.name
        if option.default is not inspect.Parameter.empty:
            constraints_of(kind)[option.name].check(option.name, option.default)


def test_descriptions():
    described = {option.name: option for option in describe_options(EXPLAINERS["hpme"])}
    assert described["restarts"][1:3] == (2, "a whole number of at least 0")
    assert described["ratio"].constraint == "a number in (0, 1] or 'auto' or None"
    assert described["score"].constraint == "'edge' or 'node' or 'both'"
    assert described["mixup"].constraint == "True or False"
    assert described["restarts"].meaning.startswith("Chains of the search: the first begins")
    assert described["seed"].meaning.startswith("Seed of the explainer's own random generator")


def test_the_default_is_that_of_the_class_and_the_meaning_that_of_the_base():
    (epochs,) = (o for o in describe_options(EXPLAINERS["mixupexplainer"]) if o.name == "epochs")
    assert epochs.default == 150 and epochs.meaning == "Passes over the graphs."


@pytest.mark.parametrize(
    ("constraint", "value", "message"),
    [
        (whole(1), 0, "x must be at least 1, got 0"),
        (whole(1), 1.5, "x must be a whole number, got 1.5"),
        (whole(1), True, "x must be a whole number, got True"),
        (whole(1), "many", "x must be a whole number, got 'many'"),
        (whole(1), None, "x must be a whole number, got None"),
        (whole(1, most=4), 5, "x must lie in [1, 4], got 5"),
        (real(above=0), 0.0, "x must be above 0, got 0.0"),
        (real(above=0), float("nan"), "x must be above 0, got nan"),
        (real(above=0), float("inf"), "x must be finite, got inf"),
        (real(least=0, below=1), 1, "x must lie in [0, 1), got 1"),
        (real(words=("auto",)), "avto", "x must be a number, got 'avto'"),
        (real(reason="nothing is chosen"), "auto", "got 'auto': nothing is chosen"),
        (constraint_of(Share), 2, "x must lie in (0, 1], got 2"),
        (one_of("a", "b"), "c", "x must be one of ('a', 'b'), got 'c'"),
        (one_of("a", "b"), ["a"], "x must be one of ('a', 'b'), got ['a']"),
        (constraint_of(bool), "yes", "x must be one of (True, False), got 'yes'"),
        (Constraint(dict), [], "x must be a dictionary, got []"),
    ],
)
def test_errors_name_the_argument_and_what_it_must_be(constraint, value, message):
    with pytest.raises(InputError) as caught:
        constraint.check("x", value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("constraint", "value"),
    [
        (whole(), -3),
        (whole(1, words=(None,)), None),
        (real(above=0), 1),
        (real(words=("auto",)), "auto"),
        (one_of("a", words=(None,)), None),
        (constraint_of(bool), False),
        (Constraint(dict), {}),
    ],
)
def test_what_is_allowed(constraint, value):
    constraint.check("x", value)


@pytest.mark.parametrize(
    ("annotation", "constraint"),
    [
        (Count, whole(1)),
        (Positive | None, real(above=0, words=(None,))),
        (Share | Literal["auto"] | None, real(above=0, most=1, words=("auto", None))),
        (Literal["a", "b"] | None, one_of("a", "b", words=(None,))),
        (bool, one_of(True, False)),
        (float, real()),
        (str | None, Constraint(str, words=(None,))),
        (dict[str, Any], Constraint(dict)),
        (Annotated[int, "of something"], None),
        (Any, None),
    ],
)
def test_annotations_say_what_is_allowed(annotation, constraint):
    assert constraint_of(annotation) == constraint


def test_arguments_of_base_classes_need_not_be_repeated():
    class Base:
        def __init__(self, *, size: Count = 1, rate: Positive = 1.0): ...

    class Derived(Base):
        def __init__(self, *, size: Annotated[int, whole(3)] = 3, **options): ...

    assert constraints_of(Derived) == {"size": whole(3), "rate": real(above=0)}
    with pytest.raises(InputError, match="size must be at least 3"):
        check_options(Derived, {"size": 2})


def test_the_base_class_has_no_base_but_that_of_pyg():
    assert GraphExplainer.__bases__ == (ExplainerAlgorithm,)


def test_wrong_arguments_are_named_before_anything_is_built():
    with pytest.raises(InputError, match="epochs must be at least 1, got 0"):
        GNNExplainer(epochs=0)
    with pytest.raises(TypeError, match="no_such"):
        GNNExplainer(no_such=1)
