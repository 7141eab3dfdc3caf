"""Pictures of explanations."""

from hpme.viz.gallery import check_picture_path, gallery

__all__ = ["check_picture_path", "gallery"]
