"""Write your own explainer and run it in the benchmark: python examples/own_explainer.py.

A subclass of ``GraphExplainer`` says how important edges are; fitting, batching, PyG's interface,
saving and checks come with the base class. A line in the ``pyproject.toml`` of its package makes
it known to the command line, to benchmarks and to the processes they start::

    [project.entry-points."hpme.explainers"]
    similarity = "my_package.similarity:SimilarityExplainer"
"""

from torch.nn.functional import cosine_similarity

from hpme.bench import Experiment, run_experiment
from hpme.explainers import EXPLAINERS, GraphExplainer, Masks
from hpme.explainers.shared.options import Positive


class SimilarityExplainer(GraphExplainer):
    """The more similar the embeddings of its two nodes, the more important an edge.

    Args:
        power: Exponent of the similarity.
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`.
    """

    slug = "similarity"
    title = "Similarity"
    summary = "Cosine similarity of the node embeddings at both ends."
    needs_fit = False

    def __init__(self, *, power: Positive = 1.0, **options) -> None:  # else an error says so
        super().__init__(**options)
        self.power = power  # keep arguments under their own names, save() writes them

    def _explain(self, adapter, graphs, **model_kwargs) -> Masks:
        h = adapter.embed(graphs, **model_kwargs).nodes.detach()
        source, target = graphs.edge_index  # of all graphs of the batch
        score = (1 + cosine_similarity(h[source], h[target])) / 2
        return Masks(edge_mask=score.clamp(0, 1) ** self.power)


def main() -> None:
    EXPLAINERS[SimilarityExplainer.slug] = SimilarityExplainer  # no package, so for this process
    for name in ("random", "similarity", "hpme"):
        small = {"size": 200, "graphs": 30, "train_steps": 400}  # leave out for the full protocol
        record = run_experiment(Experiment("ba-2motifs", name, seed=0, **small))
        seconds = record.cost["fit_seconds"] + record.cost["explain_seconds"]
        print(f"{name:12} edge ROC-AUC {record.values['auc']:.3f} in {seconds:.1f} s")


if __name__ == "__main__":
    main()
