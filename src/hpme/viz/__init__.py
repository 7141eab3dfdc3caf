"""Pictures and pages of explanations."""

from hpme.viz.gallery import check_picture_path, gallery
from hpme.viz.page import report

__all__ = ["check_picture_path", "gallery", "report"]
