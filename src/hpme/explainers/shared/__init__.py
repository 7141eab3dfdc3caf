"""What several methods share; no method lives here."""
