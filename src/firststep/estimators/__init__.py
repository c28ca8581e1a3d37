"""scikit-learn estimators: one gradient step and a convex fit, on data of one's own."""

try:
    from sklearn.utils.validation import validate_data  # noqa: F401  (came with scikit-learn 1.6)
except ImportError:
    raise ImportError(
        "OneStepRegressor, OneStepClassifier and OneStepFeatures need scikit-learn 1.6 or newer "
        "(try: pip install 'firststep[learn]')"
    ) from None

from firststep.estimators.classifier import OneStepClassifier
from firststep.estimators.learners import OneStepFeatures, OneStepRegressor

__all__ = ["OneStepClassifier", "OneStepFeatures", "OneStepRegressor"]
