"""Everything given kappa: conditional moments, the basis of the bulk, the system of equations.

Given kappa = <x, vh> the feature of a neuron of value p acts like
mu0 + mu1 <r_i, x_perp> + sqrt(mu2) xi_i, with the moments of s(u_p kappa + sqrt(c_p) z).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.activations import Activation
from firststep.numerics.batches import take
from firststep.numerics.hinge import Hinge
from firststep.numerics.library import library_of
from firststep.numerics.linear_algebra import thin_svd
from firststep.numerics.quadrature import ShiftedMoments, shifted_moments
from firststep.theory.medium import ISOTROPIC, Medium
from firststep.theory.one_step.free_functions import free_functions
from firststep.theory.one_step.nodes import GAUSSIAN, InnerRule, Rules, TermRules, term_scales
from firststep.theory.one_step.question import Model, Numbers
from firststep.theory.one_step.system import (
    Bulk,
    Levels,
    Mean,
    System,
    Target,
    Types,
    flip,
    triangle,
)
from firststep.theory.one_step.typed import StepNodes, typed_law
from firststep.theory.step import Residual, StepConstants, StepDirection, StepLaw, step_law
from firststep.theory.teacher import TermSum

if TYPE_CHECKING:
    from firststep.typing import Array, Float

# Root mean square of a penalised function that is as good as free: its penalty is 1e-8 of it, and
# beyond rounding begins to show.
_FREE = 1e4
_FAR = 1e3  # where a function that is bounded is seen to be
_NO_VALUE = 1e-13  # singular values of the basis below this are rounding, whatever the others are


class Conditional(NamedTuple):
    """Everything that is a function of kappa and the readout value."""

    law: StepLaw
    student: ShiftedMoments  # mu0, mu1, mu2, mu0', each (batch, P, K)
    target: Target
    types: Types | None = None  # of typed neurons

    @classmethod
    def of(cls, model: Model, rules: Rules, numbers: Numbers) -> Conditional:
        """The step and the conditional moments on the nodes."""
        law = step_law(
            model.constants,
            rules.labels,
            rules.label_weights,
            alpha0=numbers.alpha0,
            rate=numbers.rate,
            readout=rules.readout,
            own=model.own_output(numbers),
            medium=model.medium,
            on_sphere=not model.has_gaussian_rows,
            beside=_beside(rules),
        )
        types = None
        if model.is_typed:
            assert numbers.dimension is not None
            rate = numbers.rate[:, None] * rules.readout
            nodes = StepNodes(
                rules.labels,
                rules.label_weights,
                alpha0=numbers.alpha0,
                rate=rate,
                dimension=numbers.dimension,
            )
            law, types = typed_law(law, model.constants, nodes, model.medium)
        moments = _of_student(model, rules, law)
        return cls(law, moments, target_of(model, rules, law.direction, numbers.noise), types)

    @classmethod
    def shared(cls, model: Model, rules: Rules, numbers: Numbers) -> Conditional:
        """In NumPy, computed once for problems that differ only in alpha, beta and ridge."""
        alike = [numbers.alpha0, numbers.rate, numbers.noise]
        alike += [numbers.beta] if model.has_own_output else []
        alike += [numbers.dimension] if numbers.dimension is not None and model.is_typed else []
        keys = np.stack(alike, axis=1)
        unique, first, places = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        if len(unique) == len(keys):
            return cls.of(model, rules, numbers)
        few = rules._replace(
            readout=rules.readout[first],
            masses=rules.masses[first],
            labels=rules.labels[first],
            label_weights=rules.label_weights[first],
            amplitudes=take(rules.amplitudes, first),
        )
        return take(cls.of(model, few, take(numbers, first)), places.ravel())


def _of_student(model: Model, rules: Rules, law: StepLaw) -> ShiftedMoments:
    """mu0, mu1, mu2 and mu0' of s(u kappa + sqrt c z).

    In NumPy and with many values of a Gaussian readout those of two lines that meet are known, and
    of an odd student kappa >= 0 will do: mu0 and mu0' are odd in kappa, mu1 and mu2 even. (With few
    values at d = infinity the last digits of mean features next to nothing are seen: they stay.)
    """
    lib, rule = library_of(rules.labels), rules.student
    scale, kappa = lib.xp.sqrt(law.variance)[:, :, None], rules.kappa
    if not lib.is_numpy or rules.kind != GAUSSIAN:
        shift = law.spike[:, :, None] * kappa
        return shifted_moments(model.student.evaluate, shift, scale, rule.cuts, rule.nodes)
    hinge = _hinge(model.student)
    if hinge is not None:
        return hinge.moments(law.spike[:, :, None] * kappa, scale)
    is_bounded = abs(float(model.student(_FAR))) < _FAR / 10  # else its last digits are seen
    half = kappa.size // 2 if model.constants.is_odd and is_bounded else 0
    shift = law.spike[:, :, None] * kappa[half:]
    found = shifted_moments(model.student.evaluate, shift, scale, rule.cuts, rule.nodes)
    if not half:
        return found
    signs = (-1, 1, 1, -1)
    mirrored = (sign * part[..., :0:-1] for sign, part in zip(signs, found, strict=True))
    return ShiftedMoments(*(np.concatenate(pair, -1) for pair in zip(mirrored, found, strict=True)))


@lru_cache(maxsize=64)
def _hinge(student: Activation) -> Hinge | None:
    return Hinge.of(student.evaluate, student.kinks[0]) if len(student.kinks) == 1 else None


def target_of(
    model: Model, rules: Rules, direction: StepDirection, noise: Float[Array, " batch"]
) -> Target:
    """h0 = E t, h1 = E[z t], h2 = E t^2 + noise^2 with t = s*(gamma kappa + rho z).

    Of labels +-1, t is their mean given gamma kappa + rho z, and h2 = 1.
    """
    if isinstance(model.target, TermSum):
        return _target_of_terms(model.target, rules, direction, noise)
    assert isinstance(rules.teacher, InnerRule)
    shift, scale = direction.alignment[:, None] * rules.kappa, direction.misalignment[:, None]
    rule = rules.teacher
    moments = shifted_moments(model.target.evaluate, shift, scale, rule.cuts, rule.nodes)
    h1 = moments.slope * scale
    if model.labels is not None:
        return Target(moments.mean, h1, 1 + 0 * h1)
    h2 = moments.scatter + moments.mean**2 + h1**2 + (noise**2)[:, None]
    return Target(moments.mean, h1, h2)


def _target_of_terms(
    teacher: TermSum, rules: Rules, direction: StepDirection, noise: Float[Array, " batch"]
) -> Target:
    """Of a sum of terms, with gamma_b = O_1b gamma, rho_b^2 = 1 - gamma_b^2 and the moments of s_b
    at (gamma_b kappa, rho_b):

        h0 = sum_b m_b,   h1_a = rho_a sum_b O_ab E s_b',   rho_1 = rho, rho_a = 1 for a >= 2
        h2 = noise^2 + sum_b E s_b^2 + E P(gamma kappa + rho z)
    """
    xp = library_of(rules.labels).xp
    gamma, rho, rule = direction.alignment, direction.misalignment, rules.teacher
    assert isinstance(rule, TermRules)
    scales = term_scales(teacher, gamma, rho)
    h0, h2, slopes = 0 * rules.kappa, (noise**2)[:, None], []
    for b, (term, inner) in enumerate(zip(teacher.terms, rule.terms, strict=True)):
        shift, scale = (gamma * teacher.shares[b])[:, None] * rules.kappa, scales[:, b, None]
        found = shifted_moments(term.evaluate, shift, scale, inner.cuts, inner.nodes)
        h0 = h0 + found.mean
        h2 = h2 + found.scatter + found.mean**2 + (found.slope * scale) ** 2
        slopes.append(found.slope)
    shift, scale, inner = gamma[:, None] * rules.kappa, rho[:, None], rule.together
    h2 = h2 + shifted_moments(teacher.together.evaluate, shift, scale, inner.cuts, inner.nodes).mean
    h1 = teacher.rotation @ xp.stack(slopes, 1)
    first = xp.concatenate([h1[:, :1] * rho[:, None, None], h1[:, 1:]], 1)
    return Target(h0, first, h2)


def _beside(rules: Rules) -> Float[Array, "batch more J"] | None:
    """The weights of E[G_a f(yhat)], a >= 2."""
    if rules.amplitudes is None:
        return None
    return rules.amplitudes[:, :1] * rules.amplitudes[:, 2:]


def assemble(
    model: Model,
    rules: Rules,
    numbers: Numbers,
    given: Conditional,
    *,
    cut: float,
    rank: int | None = None,
) -> System:
    """The system; ``cut``: accuracy of B; ``rank`` fixes its size where shapes must be known."""
    return assemble_in(model, rules, numbers, given, combination_of(given, rules, cut, rank))


def assemble_in(
    model: Model,
    rules: Rules,
    numbers: Numbers,
    given: Conditional,
    combination: Float[Array, "batch r P"],
) -> System:
    """The system in a basis that is known."""
    bulk = _bulk(model, rules, numbers, given, combination)
    return System(
        bulk=bulk,
        mean=_mean(model, rules, numbers, given),
        variance=given.law.variance,
        overlap_map=_overlap_map(bulk),
        omega=rules.omega,
        alpha=numbers.alpha,
        ridge=numbers.ridge,
    )


# The mean features --------------------------------------------------------------------------------


def _mean(model: Model, rules: Rules, numbers: Numbers, given: Conditional) -> Mean:
    xp = library_of(numbers.alpha).xp
    law, features, d = given.law, given.student.mean, numbers.dimension
    if model.has_common_mode:
        size = (0.0 if d is None else 1 / xp.sqrt(d)) * xp.ones_like(numbers.alpha)
        shared = size[:, None, None] * common_mode(model, given)
        features = xp.concatenate([features, shared], -1)
    chaos = model.constants.has_linear_fluctuation and model.steps and not model.is_isotropic
    along_readout = free = None
    if model.has_own_output and model.constants.c1 != 0:
        size = rules.masses * law.kept / model.readout_square
        along_readout = rules.readout * xp.sqrt(size)
    if model.free_parts is not None:
        residual = model.residual(numbers)
        step = StepConstants.of(
            model.constants, residual, numbers.alpha0, numbers.rate, medium=model.medium
        )
        free = free_functions(rules.kappa, model.free_parts, step)
    if model.orders is not None:
        free = model.orders.functions(rules.kappa, _by_rate(model, rules, numbers))
    return Mean(
        mean=features,
        by_variance=given.student.by_variance,
        fluctuations=_fluctuations(model, rules, numbers, given),
        kappa=rules.kappa,
        target=given.target,
        length=law.direction.length,
        alignment=law.direction.alignment,
        misalignment=law.direction.misalignment,
        linear_chaos=law.linear_chaos if chaos else None,
        higher_chaos=law.higher_chaos if chaos else None,
        vector_products=law.vector_products if chaos else None,
        dimension=d,
        free=free,
        own_shift=law.own_shift,
        along_readout=along_readout,
        types=given.types,
    )


def common_mode(model: Model, given: Conditional) -> Float[Array, "batch P K"]:
    """sqrt(2 O_2) c mu0': the change of the mean feature when |x|^2 moves by sqrt(2 O_2/d)."""
    size = np.sqrt(2 * model.medium.o[2])
    return size * given.law.variance[..., None] * given.student.by_variance


def _fluctuations(
    model: Model, rules: Rules, numbers: Numbers, given: Conditional
) -> tuple[Float[Array, "batch P nodes"], ...]:
    """The psi^q: fluctuations of the mean feature that know nothing of the bulk rows.

    Q = w^T Omega w = 1 + sqrt(2 (O_2 - s)/d) xi, s = 1 for rows on the sphere and 0 for Gaussian
    ones: sqrt(2 (O_2 - s)) (kappa mu1 du/dQ + mu0' dc/dQ); for the isotropic model, whose rows are
    scaled by sqrt c, sqrt(2 (O_2 - s)) c mu0'. Norm fluctuation at fixed Q: sqrt(nu) mu0'. At
    d = infinity and exponents below 1/2 what ``orders`` has as penalised, on both sets of nodes
    where the common mode shares its direction; and the rest of that mode.
    """
    xp = library_of(numbers.alpha).xp
    law, moments, kappa = given.law, given.student, rules.kappa
    psi = []
    size = np.sqrt(2 * model.row_spread)
    if size > 0 and model.is_isotropic:  # scaling a row and scaling an input are the same to mu0
        psi.append(size * law.variance[..., None] * moments.by_variance)
    elif size > 0:
        along = law.spike_by_norm[..., None] * kappa * moments.slope
        across = law.variance_by_norm[..., None] * moments.by_variance
        psi.append(size * (along + across))
    if model.steps and not model.is_isotropic:
        size = xp.sqrt(xp.maximum(law.norm_variance, 0.0) + 1e-300)  # a root to differentiate
        psi.append(size[..., None] * moments.by_variance)
    penalised, learned = None if model.orders is None else model.orders.penalised, None
    if model.orders is not None and penalised is not None:
        strength = numbers.small_rate**penalised.order / xp.sqrt(numbers.beta)
        shape = model.orders.strength(kappa, _by_rate(model, rules, numbers))
        size = strength * xp.sqrt(xp.sum(rules.omega * shape**2, -1))
        strength = strength * _FREE / xp.maximum(size, _FREE)
        learned = (strength[:, None] * shape)[:, None]
        if not model.has_common_mode:
            psi.append(learned)
    if model.has_common_mode and penalised is not None:
        psi = [xp.pad(each, ((0, 0), (0, 0), (0, kappa.size))) for each in psi]
        mode = common_mode(model, given)
        psi.append(xp.concatenate([learned, penalised.shared * mode], -1))
        psi.append(penalised.apart * xp.concatenate([0 * mode, mode], -1))
    return tuple(psi)


def _by_rate(model: Model, rules: Rules, numbers: Numbers) -> StepConstants:
    """The constants of the step at etat = 1."""
    y, w = rules.labels, rules.label_weights
    sums = library_of(y).xp.sum
    residual = Residual(sums(w[:, 1] * y, -1), sums(w[:, 0] * y, -1), sums(w[:, 0] * y**2, -1))
    one = 0 * numbers.rate + 1.0
    return StepConstants.of(model.constants, residual, numbers.alpha0, one, medium=model.medium)


# The bulk -----------------------------------------------------------------------------------------


def _bulk(
    model: Model,
    rules: Rules,
    numbers: Numbers,
    given: Conditional,
    combination: Float[Array, "batch r P"],
) -> Bulk:
    law = given.law
    coordinates, basis, idle = low_rank(given.student.slope, rules.omega, combination)
    is_plain = model.is_isotropic or not model.steps
    zero = 0 * law.jitter
    return Bulk(
        basis=basis,
        idle=idle,
        coordinates=coordinates,
        tilt=None if is_plain or model.constants.c2 == 0 else law.tilt,
        isotropic=law.variance if is_plain else zero + 1.0,
        jitter=zero if is_plain else law.jitter,
        neurons=numbers.beta[:, None] * rules.masses,
        scatter=given.student.scatter,
        labels=rules.labels,
        label_weights=rules.label_weights,
        alpha0=numbers.alpha0,
        levels=_levels(model.medium, numbers),
        amplitudes=rules.amplitudes,
        lean=None if given.types is None else given.types.lean,
    )


def _levels(medium: Medium, numbers: Numbers) -> Levels | None:
    if medium is ISOTROPIC:
        return None
    xp, count = library_of(numbers.alpha).xp, numbers.alpha.shape[0]
    rows = (medium.levels, medium.masses, medium.shares)
    arrays = [xp.broadcast_to(np.array(row), (count, len(row))) for row in rows]
    value, mass, share = arrays
    return Levels(value, mass, share, medium.t[1] + 0 * numbers.alpha)


def combination_of(
    given: Conditional, rules: Rules, cut: float, rank: int | None = None
) -> Float[Array, "batch r P"]:
    """B by rows of mu1: combinations that are orthonormal under omega; idle rows are zero."""
    slope = given.student.slope
    lib = library_of(slope)
    xp, root = lib.xp, lib.xp.sqrt(rules.masses)
    left, sigma, _ = thin_svd(lib.frozen(root[..., None] * slope * xp.sqrt(rules.omega)))
    used = (sigma > cut * sigma[:, :1]) & (sigma > _NO_VALUE)
    size = max(1, int(xp.max(xp.sum(used, -1)))) if rank is None else rank
    left, sigma, used = left[..., :size], sigma[..., :size], used[..., :size]
    scaled = left / xp.where(used, sigma, 1.0)[:, None, :]
    return flip(xp.where(used[:, None, :], scaled, 0.0) * lib.frozen(root)[..., None])


def low_rank(
    slope: Float[Array, "batch P K"],
    omega: Float[Array, " K"],
    combination: Float[Array, "batch r P"],
) -> tuple[Float[Array, "batch P r"], Float[Array, "batch r K"], Float[Array, "batch r"]]:
    """U, B and the idle rows of mu1 = U B."""
    lib = library_of(slope)
    basis = combination @ slope
    idle = 1.0 * lib.xp.all(combination == 0, -1)
    gram = (basis * omega) @ flip(basis) + idle[:, :, None] * np.eye(idle.shape[-1])
    coordinates = flip(lib.linalg.solve(gram, (basis * omega) @ flip(slope)))
    return coordinates, basis, idle


def _overlap_map(bulk: Bulk) -> Float[Array, "batch Y K"]:
    """Lambda: the overlaps are y = (vech M, D - ridge) = Lambda S."""
    rows, columns, _ = triangle(bulk.basis.shape[1])
    squares = bulk.basis[:, rows] * bulk.basis[:, columns]
    return library_of(squares).xp.concatenate([squares, bulk.scatter], axis=1)
