"""Flat tensors that everything runs on: graphs in a store, batches, pairs, ego graphs."""
