"""Figures: one file each, with its problems and its plot."""
