"""Node classification in one large graph."""
