"""Jobs of any kind, done by processes of this machine or by a cluster."""
