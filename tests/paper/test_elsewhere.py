"""An explainer of another package stands beside the paper's, as it describes itself."""

import pytest

from hpme.bench import Experiment
from hpme.bench.jobs import CostModel
from hpme.explainers import EXPLAINERS, RandomExplainer
from hpme.paper.shared import cells
from hpme.paper.shared.scores import score_table
from hpme.paper.suites import SUITES
from hpme.paper.table1 import METRICS

TABLE = SUITES["table1"]


@pytest.fixture
def mine(monkeypatch):
    class Mine(RandomExplainer):
        slug, title = "mine", "My Explainer"
        typical_seconds, default_model = 7.0, "gin"

    Mine.__module__ = "somewhere.else"
    monkeypatch.setitem(EXPLAINERS, "mine", Mine)
    cells._asked.cache_clear()
    yield Mine
    cells._asked.cache_clear()


def test_it_is_run_with_the_model_it_is_made_for(mine):
    own = [e for e in TABLE.experiments((100,)) if e.explainer == "mine"]
    assert len(own) == 13 * 5
    assert {e.model for e in own} == {"gin"}
    assert CostModel().seconds(own[0]) == 7.0


def test_its_row_has_its_title(mine, make_record):
    asked = {"metrics": METRICS}
    records = [
        make_record("benzene", "mine", model="gin", **asked),
        make_record("benzene", "random", **asked),
    ]
    table = score_table("t", "", cells.gather(TABLE, records), ["auc"])
    assert [row for row, _ in table.rows] == ["Random", "My Explainer"]
    assert "My Explainer explains a GIN target of its own." in table.notes


def test_nobody_misses_it(mine, make_record):
    asked = make_record("benzene", "random", metrics=METRICS)
    table = score_table("t", "", cells.gather(TABLE, [asked]), ["auc"])
    skipped = next(note for note in table.notes if note.startswith("Not run"))
    assert "MetaGNN" in skipped and "My Explainer" not in skipped


def test_unknown_explainers_cost_what_anything_may():
    assert CostModel().seconds(Experiment("ba-2motifs", "nobody", 0)) == 1.0
