"""Which part of a model's output a question is about."""

import pytest
import torch

from hpme.errors import InputError, ModelError
from hpme.models.output import OutputView, described, position

LOGITS = torch.tensor([[2.0, 0.5, -1.0], [0.0, 0.0, 0.0]])


def test_without_a_question_nothing_changes():
    view = OutputView()
    assert view.read(LOGITS) is LOGITS
    assert not view.asked and view.task(LOGITS).mode == "multiclass_classification"


@pytest.mark.parametrize("entry", ["logits", 1])
def test_entry_of_a_dictionary_or_tuple(entry):
    output = {"logits": LOGITS} if entry == "logits" else (None, LOGITS)
    assert OutputView(entry=entry).pick(output) is LOGITS


def test_entry_that_is_an_attribute():
    class Output:
        logits = LOGITS

    assert OutputView(entry="logits").pick(Output()) is LOGITS


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ({"a": 1}, "a dictionary with 'a'"),
        ((LOGITS,), r"a tuple of 1: a tensor of shape \(2, 3\)"),
        (LOGITS, r"a tensor of shape \(2, 3\)"),
    ],
)
def test_an_entry_that_is_not_there_says_what_is(output, found):
    with pytest.raises(ModelError, match=f"no entry .*; it is {found}"):
        OutputView(entry="missing" if isinstance(output, dict) else 7).pick(output)


@pytest.mark.parametrize("target", [1, "B"])
def test_one_class_is_its_log_odds_against_the_others(target):
    view = OutputView(classes=["A", "B", "C"], target=target)
    odds = view.read(LOGITS)
    probability = LOGITS.softmax(1)[:, 1]
    assert odds.shape == (2, 1)
    assert torch.allclose(odds.sigmoid()[:, 0], probability)
    assert view.task(odds).mode == "binary_classification"


def test_contrast_is_the_difference_of_two_logits():
    odds = OutputView(classes=["A", "B", "C"], target="A", contrast="B").read(LOGITS)
    assert torch.allclose(odds[:, 0], LOGITS[:, 0] - LOGITS[:, 1])


def test_contrast_alone_asks_why_not():
    odds = OutputView(contrast=2).read(LOGITS)
    assert torch.allclose(odds.sigmoid()[:, 0], 1 - LOGITS.softmax(1)[:, 2])


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_a_binary_logit_has_two_classes(shape):
    logit = torch.tensor([1.5, -0.5]).view(shape)
    view = OutputView(mode="binary_classification", classes=["no", "yes"], target="no")
    assert torch.allclose(view.read(logit), -logit.view(2, 1))
    assert torch.allclose(
        OutputView(mode="binary_classification", target=1).read(logit), logit.view(2, 1)
    )


def test_probabilities_give_the_same_odds():
    raw = OutputView(target=0).read(LOGITS)
    probs = OutputView(target=0, return_type="probs").read(LOGITS.softmax(1))
    assert torch.allclose(raw, probs, atol=1e-5)


def test_one_of_several_labels():
    view = OutputView(mode="binary_classification", tasks=["a", "b", "c"], target="b")
    assert torch.allclose(view.read(LOGITS), LOGITS[:, 1:2])
    no = OutputView(mode="binary_classification", tasks=["a", "b", "c"], target=("b", 0))
    assert torch.allclose(no.read(LOGITS), -LOGITS[:, 1:2])


def test_several_labels_need_a_target():
    with pytest.raises(InputError, match=r"3 tasks; name the one.*--target\): a, b, c"):
        OutputView(mode="binary_classification", tasks=["a", "b", "c"]).read(LOGITS)


def test_one_of_several_values():
    view = OutputView(mode="regression", target=2)
    assert torch.equal(view.read(LOGITS), LOGITS[:, 2:])
    assert OutputView(mode="regression").read(LOGITS) is LOGITS


def test_tasks_with_classes():
    output = torch.stack([LOGITS, -LOGITS], dim=1)
    view = OutputView(mode="multiclass_classification", target=1)
    assert torch.equal(view.read(output), -LOGITS)
    assert view.task(view.read(output)).mode == "multiclass_classification"
    both = OutputView(mode="multiclass_classification", target=(1, 2)).read(output)
    assert torch.allclose(both.sigmoid()[:, 0], (-LOGITS).softmax(1)[:, 2])
    one = OutputView(mode="multiclass_classification").read(output[:, :1])
    assert torch.equal(one, LOGITS)


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (OutputView(target=3), "unknown class 3; valid: 0 to 2"),
        (OutputView(target=-1), "unknown class -1"),
        (OutputView(target="A"), r"unknown class 'A'; valid: 0 to 2; name them with classes="),
        (OutputView(target="X", classes=["A", "B", "C"]), "unknown class 'X'; valid: A, B, C"),
        (OutputView(target="A", classes=["A", "B"]), "2 names for 3 classes: A, B"),
        (OutputView(target=1, contrast=1), "same class"),
        (OutputView(target=(0, 1)), "unknown class"),
        (OutputView(mode="regression", target=5), "unknown task 5; valid: 0 to 2"),
        (OutputView(mode="regression", contrast=0), "regression has no classes"),
    ],
)
def test_wrong_questions_are_named(view, message):
    with pytest.raises(InputError, match=message):
        view.read(LOGITS)


def test_one_value_of_unknown_meaning():
    with pytest.raises(InputError, match="may be regression or a binary logit"):
        OutputView(target=0).read(LOGITS[:, :1])


def test_positions_and_words():
    assert position("b", 2, ["a", "b"], "task") == 1
    with pytest.raises(InputError, match="unknown task True"):
        position(True, 2, None, "task")
    assert described(3) == "of type int"


@pytest.mark.parametrize(
    ("facts", "shape", "columns"),
    [
        ({"target": 0}, (5, 3), 3),
        ({"target": 2, "contrast": 1}, (5, 3), 3),
        ({"contrast": 1}, (5, 3), 3),
        ({"target": 0, "mode": "binary_classification"}, (5, 1), 2),
        ({"target": 1}, (5, 1, 3), 3),
        ({"target": (1, 0)}, (5, 4, 3), 3),
        ({"target": (1, 0), "mode": "binary_classification"}, (5, 4), 2),
        ({"target": "b", "tasks": ["a", "b"], "mode": "binary_classification"}, (5, 2), 2),
    ],
)
def test_probabilities_of_all_classes_whatever_is_asked(facts, shape, columns):
    raw = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    asked = OutputView(**facts)
    view = asked.of_all_classes(raw)
    read = view.read(raw)
    values = view.task(read).values(read)
    assert values.shape == (5, columns) and torch.allclose(values.sum(1), torch.ones(5))
    several = len(shape) == 3 or "mode" in facts
    ours = raw[:, 1] if several and shape[1] > 1 else raw.view(5, -1)
    if columns == 2:
        assert torch.allclose(values[:, 1], ours.view(5).sigmoid())
    else:
        assert torch.allclose(values, ours.softmax(1))


def test_values_of_the_task_that_is_asked_about():
    raw = torch.rand(5, 3)
    view = OutputView(target=2, mode="regression").of_all_classes(raw)
    assert torch.equal(view.read(raw), raw[:, 2:])


def test_a_name_that_is_nearly_right():
    view = OutputView(mode="regression", tasks=["AMES", "hERG"], target="AMSE")
    with pytest.raises(InputError, match="unknown task 'AMSE'; valid: AMES, hERG; did you mean"):
        view.read(torch.zeros(3, 2))
