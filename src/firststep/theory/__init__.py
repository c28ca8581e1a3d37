"""Problem -> Prediction: the exact asymptotics."""
