"""What the numbers of a prediction are called in its table."""

from __future__ import annotations

# Quantities of the table, with the words that explain them.
SHOWN = {
    "risk": "test risk",
    "quadrature_error": "  its numerical error, at most about",
    "model_error": "  its finite-size error, about",
    "training_error": "training error",
    "random_features_risk": "random features (no step)",
    "gain": "gain over random features",
    "kernel_lower_bound": "kernel lower bound",
    "alignment": "alignment of the step with the teacher",
    "gradient_norm": "gradient norm |v|",
    "spike_strength": "spike strength",
    "bulk_variance": "bulk variance",
    "degrees_of_freedom": "degrees of freedom / samples",
    "tau_star": "tau*, best one-step feature misfit",
    "tau_minimiser": "  reached at kappa =",
    "theorem_seven_bound": "bound of [Ba] Theorem 7 (C = 1)",
    "outlier": "top singular value of W1",
    "outlier_overlap": "  squared overlap of its vector with the teacher",
}
ALIGNMENTS = "alignments with the teacher's directions"  # of several terms
# Of the teacher itself, or of its square loss: of no use there.
OF_THE_RIDGE = ("kernel_lower_bound", "tau_star", "tau_minimiser", "theorem_seven_bound")
# Of the labels, whatever the fit.
OF_THE_LABELS = {
    "bayes_error_rate": "least error rate of any classifier",
    "direction_error_rate": "least error rate along the step alone",
}
# Of an output that is on the scale of the labels, which a classifier's is not.
AGAINST_THE_TEACHER = ("risk", "random_features_risk", "gain")
