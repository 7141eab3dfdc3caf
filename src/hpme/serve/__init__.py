"""A page on this machine that questions are typed into; answers are pages of explanations."""
