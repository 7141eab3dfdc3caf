"""Seeds as people write them."""

import pytest

from hpme.bench import parse_seeds
from hpme.errors import InputError


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("0", [0]),
        ("0-4", [0, 1, 2, 3, 4]),
        ("3-3", [3]),
        ("0,3,7", [0, 3, 7]),
        ("7, 0-2", [7, 0, 1, 2]),
        ("1,0-2", [1, 0, 2]),
    ],
)
def test_lists_and_ranges(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "1-2-3", "1.5", "²"])
def test_anything_else_is_an_error_that_shows_how(text):
    with pytest.raises(InputError, match="0-4"):
        parse_seeds(text)


def test_backward_ranges_are_refused():
    with pytest.raises(InputError, match=r"4-1.*write 1-4"):
        parse_seeds("4-1")
