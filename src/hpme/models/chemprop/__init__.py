"""Chemprop v2: its message-passing networks as explained models, its molecules as graphs.

:func:`read_model` opens a model file, or those of an :class:`Ensemble`; :func:`molecules` makes
graphs of SMILES or of Chemprop's data points, and :func:`explained` says how the network is called
on them and what its output means. Chemprop is imported when one of them is called.
"""

from hpme.models.chemprop.files import Ensemble, read_model
from hpme.models.chemprop.network import explained, molecules

__all__ = ["Ensemble", "explained", "molecules", "read_model"]
