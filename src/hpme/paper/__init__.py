"""The paper's tables and figures: what to run for each, and how to show it.

One module per table or figure, or per kind of them, holds both as suites;
:mod:`hpme.paper.suites` lists all. What they share is in :mod:`hpme.paper.shared`: records become
cells, cells become tables, tables become pages.
"""

NAMES = (
    *("table1", "faithful", "baselines", "architectures", "inductive", "bias"),
    *("nodes", "links", "seal", "hetero", "shift", "fidelity", "backbones"),
    *("ablation", "beta", "ratio", "ratio-printed"),
    *("cases", "mixups", "sizes", "tune"),
)
"""All suites in the order they are shown; for those who only ask for names."""
ALL = "all"
"""Name of the suite of all suites."""
