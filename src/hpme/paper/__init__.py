"""The paper's tables and figures: what to run for each, and how to show it.

One module per table or figure holds both, as ``SUITE``. What they share is in
:mod:`hpme.paper.shared`: records become cells, cells become tables, tables become pages.
"""

NAMES = (
    "table1",
    "baselines",
    "told",
    "second",
    "nodes",
    "links",
    "seal",
    "hetero",
    "shift",
    "fidelity",
    "backbones",
    "ablation",
    "beta",
    "ratio",
    "cases",
    "mixups",
    "sizes",
    "tune",
)
"""All suites, each a module of this package, in the order they are shown."""
ALL = "all"
"""Name of the suite of all suites."""
