"""Commands of ``hpme``, one file each; :mod:`hpme.cli` puts them together."""
