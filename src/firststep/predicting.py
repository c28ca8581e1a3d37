"""``predict`` as it is public: the theory, and a check of it by layers that are drawn, if asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from firststep.checks import whole
from firststep.errors import InvalidParameter
from firststep.layer_check import MOST, Asked, LayerCheck
from firststep.problem import Problem
from firststep.results import Interrupted
from firststep.theory.one_step.predict import is_traced
from firststep.theory.one_step.predict import predict as theory
from firststep.theory.one_step.prediction import Prediction
from firststep.theory.one_step.question import broadcast, refuse_unknown


def predict(
    problem: Problem,
    *,
    bulk: str = "exact",
    neurons: object = "auto",
    dimension: object = None,
    check: object = None,
    seed: object = None,
    progress: Callable[[int, int], None] | None = None,
    **fields: object,
) -> Any:
    """The exact asymptotic risk of a problem, and what explains it: a ``Prediction``.

    ``bulk="exact"`` is the true network. ``bulk="isotropic"`` replaces the covariance of the
    trained rows by a multiple of the identity: the spiked random features model of [Cui], which
    ``simulate(model="spiked")`` draws.

    On steep spectra neurons are typed by what they see of a few leading directions, where the
    equations for it are known: a student that is odd, readout values of one size, ridge regression
    on real labels, a step at finite d (docs/theory.md, section 11). The answer's ``neurons`` says
    so; ``neurons="plain"`` has the equations without it, as derivatives in JAX do.

    Any of alpha, beta, alpha0, step, ridge and noise may be given as arrays, which are broadcast
    and solved together; several ridge values in the problem are an array too. With JAX arrays that
    are being differentiated or traced the answer is a ``Differentiable`` whose risk and
    training_error are JAX arrays; with binary labels, another loss or an intercept one whose risk,
    losses, error rates and alignment can be differentiated, outside of jit and vmap.

    d = infinity: the large step (step_exponent 0.5), the small step (0), exponents between them, or
    no step. Finite ``dimension``: any exponent, with the corrections of order 1/d from the mean of
    the features. A single number given as ``dimension`` replaces the problem's. A single problem
    that cannot be solved raises ``NotConverged``.

    ``check=10`` asks whether to trust it: ten first layers are drawn at the finite d, and the
    equations of the given layer solved for each (``check_layers``, with ``seed``). The answer's
    ``check`` is a ``LayerCheck``. ``progress`` is called with the number of layers finished.
    """
    question = _at(Problem.asked(problem), dimension)
    if check is None:
        if seed is not None:
            raise InvalidParameter("seed", "given together with check", seed)
        return theory(question, bulk=bulk, neurons=neurons, **fields)
    asked = _asked(question, bulk, check, 0 if seed is None else seed, fields)
    found = theory(question, bulk=bulk, neurons=neurons, **fields)
    try:
        return replace(found, check=_check(asked, found, neurons, progress))
    except Interrupted as stop:
        stop.result = replace(found, check=stop.result)
        raise


def _at(problem: Problem, dimension: object) -> Problem:
    """The problem at the dimension given."""
    if dimension is None:
        return problem
    if not isinstance(dimension, str):
        try:
            several = np.ndim(dimension) > 0  # type: ignore[arg-type]  # or whatever it is
        except ValueError:  # lists of several lengths
            several = True
        if several:
            hint = "one call a dimension, or a sweep"
            raise InvalidParameter("dimension", "a single number", dimension, hint)
    return problem.replace(dimension=dimension)


def _asked(
    problem: Problem, bulk: str, check: object, seed: object, fields: dict[str, object]
) -> Asked:
    """The check of a single point, or what speaks against it, before any work is done."""
    count = whole("check", check, 1, MOST)
    refuse_unknown(fields)
    hint = "one call a point"
    for name, value in fields.items():
        if is_traced(value):
            raise InvalidParameter("check", "asked of plain numbers", f"{name} in JAX", hint)
    values, shape = broadcast(problem, fields)
    if shape != ():
        raise InvalidParameter(
            "check", "asked of a single point", f"{math.prod(shape)} points", hint
        )
    point = problem.replace(**{name: float(values[name][0]) for name in fields})
    return Asked.checked(point, count, seed, bulk)


def _check(
    asked: Asked, found: Prediction, neurons: object, progress: Callable[[int, int], None] | None
) -> LayerCheck:
    """Against the theory at the layers' whole numbers, solved again only if they are others."""
    same = asked.problem.to_dict() == found.problem.to_dict()
    if not same:
        found = theory(asked.problem, bulk=asked.bulk, neurons=neurons)
    return asked.against(found, progress)
