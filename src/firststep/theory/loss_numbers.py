"""The numbers of a fit with any loss, as both theories show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firststep.problem import Problem

if TYPE_CHECKING:
    from firststep.typing import Array, Float

    Values = float | Float[Array, "*shape"]  # a float of a single point

# With the words that explain them.
OF_A_LOSS = {
    "test_loss": "test loss",
    "training_loss": "training loss",
    "error_rate": "test error rate",
    "training_error_rate": "training error rate",
    "output_alignment": "alignment of the output with the teacher",
}
NOT_CALIBRATED = "not calibrated for this loss"


def has_other_loss(problem: Problem) -> bool:
    """Whether the fit is not the plain ridge regression."""
    return problem.loss.name != "square" or problem.intercept


def main_number(problem: Problem) -> str:
    """What is asked of a problem unless something else is: the error rate of binary labels, the
    test loss of another loss of real ones (a quantile is not a mean, and its risk says little), the
    risk of ridge regression.
    """
    if problem.labels.is_binary:
        return "error_rate"
    return "test_loss" if has_other_loss(problem) else "risk"


def shown_of(problem: Problem) -> dict[str, str]:
    """Those that say something of a problem: none for ridge regression on real labels."""
    if problem.labels.is_binary:
        return OF_A_LOSS
    return {n: w for n, w in OF_A_LOSS.items() if has_other_loss(problem) and "rate" not in n}


class LossNumbers:
    """What a prediction says of the loss, by what its points report."""

    problem: Problem

    def _reported(self, name: str) -> Values:
        raise NotImplementedError

    @property
    def has_other_loss(self) -> bool:
        """Whether the fit is not the plain ridge regression."""
        return has_other_loss(self.problem)

    @property
    def test_loss(self) -> Values:
        """Mean of the loss on new samples."""
        return self._reported("test_loss")

    @property
    def training_loss(self) -> Values:
        """Mean of the loss on the samples of the fit, without the ridge's part."""
        return self._reported("training_loss")

    @property
    def error_rate(self) -> Values:
        """P(y f < 0), f = 0 a half: the 0-1 error of binary labels; nan for real ones."""
        return self._reported("error_rate")

    @property
    def training_error_rate(self) -> Values:
        """The same on the samples of the fit."""
        return self._reported("training_error_rate")

    @property
    def output_alignment(self) -> Values:
        """E[f u]/sqrt(E f^2 E u^2), u = <x, teacher>."""
        return self._reported("output_alignment")
