"""The README's example runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_first_result_takes_ten_lines_and_is_right(tmp_path, monkeypatch, capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    whole = 'load_or_train(dataset, "gcn")'
    assert whole in example
    short = "__import__('hpme.models').models.Recipe(max_steps=500)"
    example = example.replace(whole, f'load_or_train(dataset, "gcn", recipe={short})')
    example += "from hpme.metrics import explanation_auc\n"
    example += "from torch_geometric.data import Batch\n"
    example += "print('edge ROC-AUC:', explanation_auc(explanations, graphs))\n"
    example += "batch = Batch.from_data_list(graphs)\n"
    example += "scores = model(batch.x, batch.edge_index, batch=batch.batch)\n"
    example += "print('classes:', scores.argmax(1).unique().tolist())\n"
    monkeypatch.setenv("HPME_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    match = re.fullmatch(r"edge ROC-AUC: (.+)\nclasses: \[0, 1\]\n", printed)
    assert match, printed
    assert float(match[1]) > 0.8
    assert (tmp_path / "transplant.png").read_bytes().startswith(b"\x89PNG")


def test_links_lead_somewhere():
    root = README.parent
    for page in [README, *(root / "docs").glob("*.md")]:
        text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            if target.startswith("notebooks/"):  # a page made of a notebook
                target = f"../examples/{target.removesuffix('.md')}.ipynb"
            if "://" not in target and target != "options.md":  # that is made of the explainers
                assert (page.parent / target).exists(), f"{page.name}: {target}"
