"""Where the risk comes from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firststep.theory.one_step.solve import Point


@dataclass(frozen=True)
class ErrorSplit:
    """The parts of the risk, and the power of the teacher they are parts of."""

    total: float  # E[s*^2]
    # m(kappa) is not E[y|kappa]: shrinkage by the ridge, features that cannot bend as the teacher.
    along: float
    # The linear part of what the step left of the teacher's direction, not learned.
    across: float
    # The rest of the teacher across the step: no function that the network can become has it.
    out_of_reach: float
    # The scatter of the fit about its mean: finite samples, label noise, random features.
    fluctuation: float

    @classmethod
    def of(cls, point: Point, total: float) -> ErrorSplit:
        """With E[y|kappa, zeta] = h0 + h1 zeta + (what is not linear in zeta):

        along = E(m - h0)^2, across = E(t - h1)^2, out_of_reach = E[s*^2 - h0^2 - h1^2],
        fluctuation = what is left of the risk.
        """
        h0, h1, h2 = point.target
        misses = point.learned - h0, point.linear_coefficient - h1
        noise = point.label_variance
        along, across = (float(np.sum(point.omega * miss**2)) for miss in misses)
        beyond = float(np.sum(point.omega * (h2 - noise - h0**2 - h1**2)))
        return cls(
            total=total,
            along=along,
            across=across,
            out_of_reach=beyond,
            fluctuation=point.risk - along - across - beyond,
        )

    @property
    def risk(self) -> float:
        return self.along + self.across + self.out_of_reach + self.fluctuation

    @property
    def learned(self) -> float:
        """The power of the teacher less the risk; negative if predicting nothing does better."""
        return self.total - self.risk
