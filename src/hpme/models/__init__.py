"""Models: networks with their training, and any user's model behind one interface."""

from hpme.models.explained import ExplainedModel as ExplainedModel
from hpme.models.gnn import GAT as GAT
from hpme.models.gnn import GCN as GCN
from hpme.models.gnn import GIN as GIN
from hpme.models.gnn import EdgeWeightedGNN as EdgeWeightedGNN
from hpme.models.gnn import TargetGNN as TargetGNN
from hpme.models.registry import MODELS as MODELS
from hpme.models.registry import build_model as build_model
from hpme.models.registry import load_model as load_model
from hpme.models.registry import load_or_train as load_or_train
from hpme.models.registry import save_model as save_model
from hpme.models.seal import DGCNN as DGCNN
from hpme.models.train import RECIPES as RECIPES
from hpme.models.train import Recipe as Recipe
from hpme.models.train import TrainReport as TrainReport
from hpme.models.train import evaluate as evaluate
from hpme.models.train import predict as predict
from hpme.models.train import recipe_for as recipe_for
from hpme.models.train import train_target as train_target
