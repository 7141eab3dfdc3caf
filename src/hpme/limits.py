"""The most that can be asked for; command line and library refuse more by the same bounds."""

MAX_SEED = 2**63 - 1
"""What random generators take."""
MAX_SEEDS = 10_000
"""Each is a run of its own."""
MAX_SIZE = 10_000_000
"""More graphs than any memory holds."""
