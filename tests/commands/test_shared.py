"""Arguments as people write them."""

import pytest

from hpme.commands.shared import parse_options, parse_rules
from hpme.errors import InputError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("False", False),
        ("None", None),
        ("[1, 2]", [1, 2]),
        ("near", "near"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_option_values(text, value):
    assert parse_options([f"some-key={text}"]) == {"some_key": value}


@pytest.mark.parametrize("pairs", [["x"], ["=1"], ["x=1", "x=2"]])
def test_malformed_options(pairs):
    with pytest.raises(InputError):
        parse_options(pairs)


def test_parse_rules():
    pytest.importorskip("rdkit", reason="molecules need RDKit: pip install 'hpme[chem]'")
    assert parse_rules(["a b=[CX3]=O", "c-1=N"]) == {"a b": "[CX3]=O", "c-1": "N"}
    with pytest.raises(InputError, match="twice"):
        parse_rules(["a=C", "a=N"])
