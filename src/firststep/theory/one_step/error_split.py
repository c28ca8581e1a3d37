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
    # The linear part of what the step left of the teacher's direction, not learned; of several
    # directions that of all of them.
    across: float
    # The rest of the teacher across the step: no function that the network can become has it.
    out_of_reach: float
    # The scatter of the fit about its mean: finite samples, label noise, random features.
    fluctuation: float
    # Of ``across`` the part of each rotated direction: of the rest of the one that the linear parts
    # of the terms have together, then of those across it.
    across_by_direction: tuple[float, ...] = ()

    @classmethod
    def of(cls, point: Point, total: float) -> ErrorSplit:
        """With E[y|kappa, zeta] = h0 + sum_a h1_a zeta_a + (what is not linear in zeta):

        along = E(m - h0)^2, across = sum_a E(t_a - h1_a)^2,
        out_of_reach = E[s*^2 - h0^2 - sum_a h1_a^2],
        fluctuation = what is left of the risk.
        """
        h0, h1, h2 = point.target
        noise, missed = point.label_variance, np.atleast_2d(point.linear_coefficient - h1)
        along = float(np.sum(point.omega * (point.learned - h0) ** 2))
        parts = tuple(float(np.sum(point.omega * miss**2)) for miss in missed)
        across, linear = sum(parts), np.sum(np.atleast_2d(h1) ** 2, 0)
        beyond = float(np.sum(point.omega * (h2 - noise - h0**2 - linear)))
        return cls(
            total=total,
            along=along,
            across=across,
            out_of_reach=beyond,
            fluctuation=point.risk - along - across - beyond,
            across_by_direction=parts,
        )

    @property
    def risk(self) -> float:
        return self.along + self.across + self.out_of_reach + self.fluctuation

    @property
    def learned(self) -> float:
        """The power of the teacher less the risk; negative if predicting nothing does better."""
        return self.total - self.risk
