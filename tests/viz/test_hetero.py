import json
import re

import pytest
from matplotlib.colors import to_hex

from hetero import WIDTHS, make_graphs, make_model
from hpme.explainers import GradExplainer, HPMEExplainer
from hpme.page import write_page
from hpme.viz.gallery import picture
from hpme.viz.style import TYPES


@pytest.fixture(scope="module")
def explained():
    graphs, model = make_graphs(4), make_model()
    explainer = HPMEExplainer(k=4, restarts=1)
    return graphs, model, explainer.fit(model, graphs, progress=False).explain(model, graphs)


def test_every_type_has_its_colour_and_is_named(explained):
    graphs, _, explanations = explained
    svg = picture(graphs[:2], explanations[:2], ".svg").decode()
    for colour, _ in TYPES[: len(WIDTHS)]:
        assert to_hex(colour) in svg
    assert to_hex(TYPES[len(WIDTHS)][0]) not in svg
    assert len({shape for _, shape in TYPES}) == len({colour for colour, _ in TYPES}) == len(TYPES)


def test_an_explanation_draws_itself(explained, tmp_path):
    explanation = explained[2][0]
    assert explanation.draw().startswith("<?xml")
    assert explanation.draw(tmp_path / "one.png").stat().st_size > 1000


def test_tables_name_types(explained):
    pytest.importorskip("pandas")
    explanation = explained[2][0]
    edges, nodes = explanation.to_frame(), explanation.to_frame("nodes")
    counts = [explanation[kind].edge_index.shape[1] for kind in explanation.edge_types]
    assert len(edges) == sum(counts)
    row = edges.iloc[0]
    kind = (row["source type"], row["relation"], row["target type"])
    assert explanation[kind].edge_index[:, 0].tolist() == [row["source"], row["target"]]
    assert float(explanation[kind].edge_mask[0]) == pytest.approx(row["importance"])
    assert nodes["type"].value_counts().to_dict() == {
        kind: len(explanation[kind].x) for kind in WIDTHS
    }
    users = nodes[nodes["type"] == "user"]
    assert users["node"].tolist() == list(range(len(users)))
    assert users["pooled"].tolist() == explanation["user"].pooled.tolist()


def test_the_page_knows_types(explained, tmp_path):
    graphs, model, explanations = explained
    other = GradExplainer().explain(model, graphs)
    both = {"hpme": explanations, "grad": other}
    path = write_page(model, graphs, both, tmp_path / "page.html", steps=3)
    text = path.read_text("utf-8")
    data = json.loads(re.search(r'id="data"[^>]*>(.*?)</script>', text, re.DOTALL)[1])
    assert data["types"] == list(WIDTHS)
    assert data["type"]["data"]
