"""Features, and the fit of the readout on them."""
