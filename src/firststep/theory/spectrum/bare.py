"""The step as the weights themselves have it, where the inputs have a covariance.

A fit sees a row through <w, x>, and every length carries Omega (``theory.step``). The singular
values of W1 know nothing of the inputs of a fit.
"""

from __future__ import annotations

import numpy as np

from firststep.theory.one_step.nodes import Rules
from firststep.theory.one_step.question import Model, Numbers
from firststep.theory.step import Residual, StepLaw, plain_gradient_square


def bare_law(model: Model, rules: Rules, numbers: Numbers, law: StepLaw) -> StepLaw:
    """The step as the weights themselves have it: |v| and tr C/d without Omega,

    |v|^2 = c1*^2 T_1 + mh_2/alpha0
    c = 1 + 2 e mh_1 + e^2 (mh_1^2 O_2 + mh_2/alpha0) + chi mh_2.
    """
    first, second = (np.sum(rules.label_weights[:, 0] * rules.labels**j, -1) for j in (1, 2))
    along = np.sum(rules.label_weights[:, 1] * rules.labels, -1)
    residual = Residual(along, first, second)
    length = np.sqrt(plain_gradient_square(residual, numbers.alpha0, model.medium))
    m1, m2, alpha0 = first[:, None], second[:, None], numbers.alpha0[:, None]
    square = m1**2 * model.medium.o[2] + m2 / alpha0  # tr M^2/d
    ratio = (length / law.direction.length)[:, None]
    return law._replace(
        direction=law.direction._replace(length=length),
        spike=law.spike * ratio,
        spike_by_norm=law.spike_by_norm * ratio,
        variance=1 + 2 * law.tilt * m1 + law.tilt**2 * square + law.jitter * m2,
    )
