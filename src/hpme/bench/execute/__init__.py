"""How the experiments of a plan are run: in processes of this machine, or on a cluster."""
