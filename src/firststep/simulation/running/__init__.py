"""Replicates, processes and verbs."""
