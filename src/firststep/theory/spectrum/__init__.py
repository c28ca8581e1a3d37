"""The spectrum of the trained layer and of its kernel."""
