"""The ridge fit of a first layer that is given."""
