"""The explorer: a local page over the library, whose numbers are all the library's."""
