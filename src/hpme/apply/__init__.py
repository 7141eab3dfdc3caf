"""A saved explainer on any number of graphs: rows of a file in, shards of a table out."""

from hpme.apply.rows import GraphFile as GraphFile
from hpme.apply.rows import Part as Part
from hpme.apply.rows import SmilesTable as SmilesTable
from hpme.apply.rows import open_rows as open_rows
from hpme.apply.shards import Applied as Applied
from hpme.apply.shards import ShardFolder as ShardFolder
from hpme.apply.shards import apply as apply
from hpme.apply.work import ShardWork as ShardWork
