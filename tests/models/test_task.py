import pytest
import torch
import torch.nn.functional as F

from hpme.errors import InputError, ModelError
from hpme.models.output import Task, check_rows


@pytest.fixture
def logits():
    return torch.randn(8, 3, generator=torch.Generator().manual_seed(0))


RETURNS = {
    "raw": lambda out: out,
    "probs": lambda out: out.softmax(1),
    "log_probs": lambda out: out.log_softmax(1),
}


@pytest.mark.parametrize("return_type", RETURNS)
def test_multiclass(logits, return_type):
    task, output = Task("multiclass_classification", return_type), RETURNS[return_type](logits)
    task.check(output)
    torch.testing.assert_close(task.values(output), logits.softmax(1))
    torch.testing.assert_close(task.log_prob(output), logits.log_softmax(1))
    assert torch.equal(task.prediction(output), logits.argmax(1))
    target = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    expected = F.cross_entropy(logits, target, reduction="none")
    torch.testing.assert_close(task.loss(output, target), expected)


@pytest.mark.parametrize("return_type", ["raw", "probs"])
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_binary(logits, return_type, shape):
    logit = logits[:, 0]
    output = (logit if return_type == "raw" else logit.sigmoid()).view(shape)
    task = Task("binary_classification", return_type)
    task.check(output)
    probs = torch.stack([1 - logit.sigmoid(), logit.sigmoid()], dim=1)
    torch.testing.assert_close(task.values(output), probs)
    assert torch.equal(task.prediction(output), (logit > 0).long())
    target = torch.tensor([0, 1, 0, 0, 1, 1, 0, 1])
    expected = F.binary_cross_entropy_with_logits(logit, target.float(), reduction="none")
    torch.testing.assert_close(task.loss(output, target), expected)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_regression_in_units_of_the_spread(logits, shape):
    output = (1000 + 50 * logits[:, 0]).view(shape)
    task = Task.resolve(output, mode="regression")
    assert task.scale == pytest.approx(float(output.std()))
    assert not task.classification
    target = task.prediction(output)
    assert target.shape == (8, 1)
    torch.testing.assert_close(task.loss(output, target), torch.zeros(8))
    other = output + output.std()
    torch.testing.assert_close(task.loss(other, target), torch.ones(8), rtol=1e-3, atol=1e-3)


def test_regression_of_several_values(logits):
    task = Task.resolve(logits, mode="regression")
    expected = ((logits - 1) ** 2).mean(1) / logits.std() ** 2
    target = task.values(torch.ones_like(logits))
    torch.testing.assert_close(task.loss(logits, target), expected)


@pytest.mark.parametrize("output", [torch.ones(5, 1), torch.ones(1, 1)])
def test_constant_output_has_scale_one(output):
    assert Task.resolve(output, mode="regression").scale == 1.0


@pytest.mark.parametrize("return_type", ["raw", "probs"])
def test_certain_outputs_have_finite_losses(return_type):
    certain = {"raw": 1e4, "probs": 1.0}[return_type]
    two = torch.tensor([[certain, 0.0]])
    for task, output in (
        (Task("multiclass_classification", return_type), two),
        (Task("binary_classification", return_type), two[:, :1]),
    ):
        for target in (0, 1):
            assert bool(torch.isfinite(task.loss(output, torch.tensor([target]))).all())


def test_resolve(logits):
    assert Task.resolve(logits) == Task("multiclass_classification")
    assert Task.resolve(logits[:, 0], mode="binary_classification").mode == "binary_classification"
    known = Task.resolve(logits, return_type="probs")
    assert known == Task("multiclass_classification", "probs")
    for one in (logits[:, 0], logits[:, :1]):
        with pytest.raises(InputError, match="mode='regression' or mode='binary_classification'"):
            Task.resolve(one)


def test_unknown_mode(logits):
    with pytest.raises(InputError, match="unknown mode 'classification'; use one of: multiclass"):
        Task.resolve(logits, mode="classification")


def test_check(logits):
    with pytest.raises(ModelError, match="at least two output columns"):
        Task("multiclass_classification").check(logits[:, 0])
    with pytest.raises(ModelError, match="got 3; two columns of logits are mode='multiclass"):
        Task("binary_classification").check(logits)
    for value in (float("nan"), float("inf")):
        broken = logits.clone()
        broken[2, 1] = value
        with pytest.raises(ModelError, match="NaN or infinite"):
            Task("multiclass_classification").check(broken)


def test_check_rows(logits):
    check_rows(logits, 8)
    check_rows(logits[:, 0], 8)
    for output, message in (
        (logits, r"shape \(8, 3\) for 7 graphs; expected \[7, outputs\].*batch vector"),
        (logits.sum(), r"shape \(\)"),
        (logits[..., None], r"shape \(8, 3, 1\)"),
    ):
        with pytest.raises(ModelError, match=message):
            check_rows(output, 7)
    with pytest.raises(ModelError, match=r"returned tuple.*output="):
        check_rows((logits, logits), 8)
