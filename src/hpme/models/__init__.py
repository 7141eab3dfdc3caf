"""Models: networks with their training, and any user's model behind one interface."""

from hpme.models.explained import ExplainedModel
from hpme.models.gnn import GAT, GCN, GIN, EdgeWeightedGNN, TargetGNN
from hpme.models.registry import MODELS, build_model, load_model, load_or_train, save_model
from hpme.models.seal import DGCNN
from hpme.models.train import (
    RECIPES,
    Recipe,
    TrainReport,
    evaluate,
    predict,
    recipe_for,
    train_target,
)

__all__ = [
    "DGCNN",
    "GAT",
    "GCN",
    "GIN",
    "MODELS",
    "RECIPES",
    "EdgeWeightedGNN",
    "ExplainedModel",
    "Recipe",
    "TargetGNN",
    "TrainReport",
    "build_model",
    "evaluate",
    "load_model",
    "load_or_train",
    "predict",
    "recipe_for",
    "save_model",
    "train_target",
]
