"""The explorer: a local page over the library. Nothing here computes anything that the library does not."""
