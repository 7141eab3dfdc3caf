"""A saved explainer on any number of graphs: rows of a file in, shards of a table out."""

from hpme.apply.rows import GraphFile, Part, SmilesTable, open_rows
from hpme.apply.shards import Applied, ShardFolder, apply
from hpme.apply.work import ShardWork

__all__ = [
    "Applied",
    "GraphFile",
    "Part",
    "ShardFolder",
    "ShardWork",
    "SmilesTable",
    "apply",
    "open_rows",
]
