"""The first layer: drawn and trained."""
