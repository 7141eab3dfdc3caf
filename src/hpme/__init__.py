"""hpme: explanations of graph neural networks by hard-perturbation mixup."""

from importlib.metadata import version

__version__ = version("hpme")
