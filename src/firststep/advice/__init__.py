"""``advise``: would a step of feature learning help on a table of one's own, and how much?"""

try:
    import firststep.estimators  # noqa: F401
except ImportError:
    raise ImportError(
        "advise needs scikit-learn 1.6 or newer (try: pip install 'firststep[learn]')"
    ) from None

from firststep.advice.asking import advise
from firststep.advice.intervals import Interval
from firststep.advice.record import Advice

__all__ = ["Advice", "Interval", "advise"]
