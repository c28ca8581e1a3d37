"""Models with a first layer: draw, step, fit, test. The same code runs on NumPy and on JAX."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.errors import NotConverged
from firststep.simulation.data.rows import Data, InputArrays, Replicate
from firststep.simulation.data.teachers import draw_directions, first_direction
from firststep.simulation.fit.features import Layer, chebyshev_basis, conditional_table
from firststep.simulation.fit.readout import FITS, FeatureRows
from firststep.simulation.kinds import MODELS, Measured, Model
from firststep.simulation.models.measuring import (
    finish_test,
    finish_training,
    nothing_measured,
    test_sums,
    training_sums,
)
from firststep.simulation.models.observables import leading_singular_values
from firststep.simulation.weights.draw import (
    SpikedLaw,
    draw_readout,
    draw_weights,
    gradient,
    spiked_weights,
)
from firststep.simulation.weights.whitening import Inverse, batch_inverse, law_inverse

if TYPE_CHECKING:
    from firststep.problem import Problem
    from firststep.simulation.backends import Backend, Place
    from firststep.simulation.data.rows import Key, Predictions
    from firststep.simulation.data.teachers import Directions
    from firststep.simulation.design import Design
    from firststep.typing import Array, Float

LARGEST_WEIGHT = 1e100  # beyond this, squares of weights overflow


class Start(NamedTuple):
    """What a replicate draws before any data."""

    teacher: Directions
    weights: Float[Array, "d N"]  # W0
    readout: Float[Array, " N"]  # at


class Step(NamedTuple):
    """The first layer after a step."""

    weights: Float[Array, "d N"]
    update: Float[Array, "d N"] | None  # its change, if it is the only step
    moments: Float[Array, "d 2"]  # (1/n0) X^T [r, y] of the batch


class Made(NamedTuple):
    """The first layer that the readout is fitted on."""

    layer: Layer
    direction: Float[Array, " d"]  # of kappa
    measured: Measured


class Readout(NamedTuple):
    """What is fitted, for every ridge. Compiled code takes it as an argument."""

    solution: Float[Array, "N ridges"]
    intercept: Float[Array, " ridges"] | None

    def of(self, features: Float[Array, "n N"]) -> Float[Array, "n ridges"]:
        """The predictions."""
        found = features @ self.solution
        return found if self.intercept is None else found + self.intercept


class LayerModel(Model):
    """A readout fitted on features of a first layer. The stages are compiled once per design."""

    is_network = True

    def __init__(self, design: Design, backend: Backend) -> None:
        super().__init__(design, backend)
        self._arrays = InputArrays(design, backend)
        self._start = backend.compile(self._start_stage)
        self._test = backend.compile(self._test_stage)
        self._rows = FeatureRows(design, backend, self.features)
        self._fit = FITS[design.fit](self._rows)
        self._training = backend.compile(self._training_stage)

    def open(self, replicate: Replicate) -> Data:
        return Data.of(self.design, self.backend, replicate)

    def _start_stage(self, key: Key) -> Start:
        design, backend, draws = self.design, self.backend, self.open(Replicate(key)).draws
        return Start(
            draw_directions(backend, draws, design, key.metric),
            draw_weights(backend, draws, design),
            draw_readout(backend, draws, design.readout, design.sizes.width),
        )

    def _test_stage(
        self, replicate: Replicate, layer: Layer, fitted: Readout, direction: Float[Array, " d"]
    ) -> tuple[Array, ...]:
        data = self.open(replicate)
        features = self.features(data, layer, "test")

        def predictions(
            inputs: Float[Array, "count d"], start: Place, count: int
        ) -> Float[Array, "count ridges"]:
            return fitted.of(features(inputs, start, count))

        return test_sums(data, direction, predictions, fitted.solution.shape[1])

    def _training_stage(
        self, replicate: Replicate, layer: Layer, fitted: Readout
    ) -> tuple[Array, ...]:
        """Sums of the loss and of the 0-1 error over the samples of the fit."""
        backend, targets = self.backend, self.design.targets

        def add(
            carry: tuple[Array, ...], features: Float[Array, "count N"], labels: Float[Array, " n"]
        ) -> tuple[Array, ...]:
            more = training_sums(targets, labels, fitted.of(features), backend.xp)
            return carry[0] + more[0], carry[1] + more[1]

        zero = backend.zeros((fitted.solution.shape[1],))
        return self._rows.fold(replicate, layer, add, (zero, zero))

    def features(self, data: Data, layer: Layer, name: str) -> Predictions:
        """The map (inputs, start, count) -> s(W^T x), count x N, for the ridge or the test data."""
        student = self.design.student
        return lambda inputs, start, count: student.evaluate(inputs @ layer.weights)

    def make(self, problem: Problem, replicate: Replicate, start: Start) -> Made:
        """The layer as it is drawn; models with a step change it."""
        direction = first_direction(start.teacher)
        return Made(Layer(start.weights), direction, nothing_measured(self.design))

    def replicate(self, problem: Problem, seed: int, number: int) -> Measured:
        key = self._arrays.key(seed, number)
        start = self._start(key)
        replicate = Replicate(key, start.teacher, self.backend.to_device(problem.noise))
        made = self.make(problem, replicate, start)
        return {**made.measured, **self._fitted(problem, replicate, made)}

    def _fitted(self, problem: Problem, replicate: Replicate, made: Made) -> Measured:
        fitted = self._fit(replicate, made.layer, problem.ridges)
        readout = Readout(fitted.solution, fitted.intercept)
        sums = self._test(replicate, made.layer, readout, made.direction)
        found = finish_test(sums, self.design, self.backend)
        if not self.design.targets.is_plain:
            trained = self._training(replicate, made.layer, readout)
            found |= finish_training(trained, self.design, self.backend)
        return {**found, "training_error": fitted.training_error}

    @classmethod
    def memory(cls, design: Design, itemsize: int) -> int:
        sizes = design.sizes
        d, n, width = sizes.dimension, sizes.samples, sizes.width
        # arrays of the size of a block: more where inputs are made from Gaussian numbers
        arrays = 6 if design.inputs.is_gaussian else 8
        working = arrays * design.largest_block * max(width, d) + 2 * (n + sizes.step_samples)
        state = design.optimizer.state_arrays + (design.training.steps > 1)
        step = (3 + state) * d * width if design.takes_step else d * width
        step += design.optimizer.square_arrays * d * d if design.takes_step else 0
        collects = design.fit != "square" or not design.is_primal
        fit = d * width + (n * width if collects else 0)
        small = min(n, width)
        # a fit on the host: double precision, a block of weighted rows, and a factor
        host = (8 - itemsize) * n * width + 8 * 1024 * width if design.fit != "square" else 0
        return max(
            itemsize * (step + cls.extra_memory(design) + working),
            itemsize * (fit + working) + 8 * 4 * small * small + host,
        )

    @classmethod
    def extra_memory(cls, design: Design) -> int:
        """Numbers that a model keeps beside its weights."""
        return 0


@MODELS.add
class Network(LayerModel):
    """The real network: W1 after its gradient steps, features s(W1^T x)."""

    name, meaning = "network", "the real network after its gradient step"
    trains = has_step = True

    def __init__(self, design: Design, backend: Backend) -> None:
        super().__init__(design, backend)
        self._gradient = backend.compile(self._gradient_stage)
        self._inverse = backend.compile(self._inverse_stage)
        self._of_law: Inverse | None = None  # the same for all replicates
        self._singular = leading_singular_values(backend)

    def _gradient_stage(
        self,
        replicate: Replicate,
        weights: Float[Array, "d N"],
        readout: Float[Array, " N"],
        batch: int,
    ) -> tuple[Float[Array, "d N"], Float[Array, "d 2"]]:
        return gradient(self.open(replicate), weights, readout, batch)

    def _inverse_stage(self, replicate: Replicate, batch: int) -> Inverse:
        return batch_inverse(self.open(replicate), batch)

    def make(self, problem: Problem, replicate: Replicate, start: Start) -> Made:
        if not self.design.takes_step:
            return super().make(problem, replicate, start)
        first_moments, last = None, None
        for last in self._steps(problem, replicate, start):
            first_moments = last.moments if first_moments is None else first_moments
        assert last is not None
        assert first_moments is not None
        update = last.weights - start.weights if last.update is None else last.update
        done = Step(last.weights, update, first_moments)
        rate = problem.learning_rate(self.design.sizes.width)
        return Made(Layer(last.weights), *self._measure(replicate, start, done, rate))

    def path(self, problem: Problem, seed: int, number: int) -> Iterator[tuple[Start, Array]]:
        """What a replicate starts from, and W after 0, 1, 2, ... steps."""
        key = self._arrays.key(seed, number)
        start = self._start(key)
        yield start, start.weights
        if self.design.takes_step:
            replicate = Replicate(key, start.teacher, self.backend.to_device(problem.noise))
            for step in self._steps(problem, replicate, start):
                yield start, step.weights

    def _steps(self, problem: Problem, replicate: Replicate, start: Start) -> Iterator[Step]:
        design, xp = self.design, self.backend.xp
        rate, decay = problem.learning_rate(design.sizes.width), design.training.weight_decay
        optimizer = design.optimizer(design.sizes, xp, rate)
        if optimizer.covariance == "law":
            self._of_law = self._of_law or law_inverse(design, self.backend)
            optimizer.inverse = self._of_law
        weights = start.weights
        for number in range(design.training.steps):
            batch = number if design.training.batches == "fresh" else 0
            update, moments = self._gradient(replicate, weights, start.readout, batch)
            if optimizer.covariance == "batch" and (batch == number):  # else it is the same again
                optimizer.inverse = self._inverse(replicate, batch)
            update = optimizer.change(update)
            weights = ((1 - problem.step * decay) * weights if decay else weights) + update
            if design.training.steps > 1 or decay:
                update = None  # room for the next gradient; or not all of the change
            if not float(xp.abs(weights).max()) < LARGEST_WEIGHT:
                told = "the weights overflowed in the gradient step"
                raise NotConverged(f"{told}: the step, the noise or the activations are too large")
            yield Step(weights, update, moments)

    def _measure(
        self, replicate: Replicate, start: Start, done: Step, rate: float
    ) -> tuple[Float[Array, " d"], Measured]:
        """The direction of the spike and the measurements of the update W - W0.

        v = X^T r/n0 of the first step, vh = v/|v|. Spike strength: the coefficient of the update on
        vh at^T. Where the problem has a spectrum of its inputs, N(0, Omega), lengths and cosines
        are those that the inputs see: vh = v/|v|_Omega, |v|_Omega^2 = v^T Omega v, alignment
        theta^T Omega vh, spike strength vh^T Omega (W - W0) at/|at|^2, overlap of a singular vector
        u (theta^T Omega u)^2/(u^T Omega u). ``gradient_norm`` is the plain |v|.
        |G0 - A|/|G0| of [Ba] Prop. 2 (one step of the gradient): A = (c1/(n0 sqrt N)) X^T y a^T, so
        eta sqrt N A = eta c1 (X^T y/n0) a^T. The direction of the spike is vh after one step of the
        gradient, that of the update times at where the optimizer turns the step, else the top left
        vector of the update.
        """
        backend, xp, readout, update = self.backend, self.backend.xp, start.readout, done.update
        assert update is not None
        width, theta = self.design.sizes.width, first_direction(start.teacher)
        metric, norm = replicate.key.metric, xp.linalg.norm(done.moments[:, 0])
        direction = metric.scaled(done.moments[:, 0] / xp.where(norm > 0, norm, 1.0), xp)
        first = self.open(replicate).draws.vector("singular vectors", width)
        of_update, of_weights = (self._singular(each, first, 2) for each in (update, done.weights))
        tiny = np.finfo(backend.dtype).tiny
        top, top_update = (metric.scaled(each.left, xp) for each in (of_weights, of_update))
        # what the inputs see of the three: cosines with theta are scalar products with these
        seen, seen_top, seen_update = (metric.weighted(v) for v in (direction, top, top_update))
        strength = (seen @ update) @ readout / xp.maximum(readout @ readout, tiny)
        measured = dict(
            gradient_norm=float(norm),
            alignment=float(seen @ theta),
            spike_strength=float(strength),
            singular_values_weights=of_weights.values,
            singular_values_update=of_update.values,
            teacher_overlap_weights=float(seen_top @ theta) ** 2,
            teacher_overlap_update=float(seen_update @ theta) ** 2,
            rank_one_error=math.nan,
        )
        if self.design.teacher_terms:
            along, left = (
                backend.to_host(each @ start.teacher).astype(float) for each in (seen, seen_update)
            )
            measured.update(teacher_overlaps=along, teacher_overlaps_update=left**2)
        training, optimizer = self.design.training, self.design.optimizer
        is_gradient = training.steps == 1 and optimizer.starts_as_gradient
        if is_gradient and of_update.values[0] > 0 and not training.weight_decay:
            spike = rate * self.design.student.moments.linear * done.moments[:, 1]
            minus = (spike, readout / math.sqrt(width))
            beyond = self._singular(update, first, minus=minus)
            measured["rank_one_error"] = beyond.values[0] / of_update.values[0]
        if optimizer.turns:
            along = update @ readout
            along = along / xp.maximum(xp.linalg.norm(along), tiny)
            direction = metric.scaled(along, xp)
            measured["update_alignment"] = float(metric.weighted(direction) @ theta)
            if optimizer.is_flat and training.steps == 1 and not training.weight_decay:
                measured |= _undefined(measured)
        elif not is_gradient:
            direction = top_update * xp.where(seen_update @ theta < 0, -1.0, 1.0)
        return direction, measured


def _undefined(measured: Measured) -> Measured:
    """What an update without a leading singular vector does not have, as nan."""
    names = ("singular_values_update", "teacher_overlap_update", "teacher_overlaps_update")
    return {name: measured[name] * math.nan for name in names if name in measured}


@MODELS.add
class Spiked(LayerModel):
    """w_i = sqrt(c(at_i)) w_i0 + r at_i vh, features s(W1^T x)."""

    name, meaning = "spiked", "spiked random features: isotropic bulk plus rank-one spike"
    has_step, several_terms, knows_spectra = True, False, False

    def __init__(self, design: Design, backend: Backend) -> None:
        super().__init__(design, backend)
        self._spike = backend.compile(self._spike_stage)

    def _spike_stage(
        self, replicate: Replicate, start: Start, law: Float[Array, " 4"]
    ) -> tuple[Float[Array, "d N"], Float[Array, " d"]]:
        return spiked_weights(self.open(replicate), start.weights, start.readout, law)

    def make(self, problem: Problem, replicate: Replicate, start: Start) -> Made:
        made = super().make(problem, replicate, start)
        if not self.design.takes_step:
            return made
        law = SpikedLaw.of(problem, self.design.sizes)
        numbers = (law.alignment, law.spike_strength, law.bulk_shift, law.bulk_variance)
        weights, direction = self._spike(replicate, start, self.backend.to_device(numbers))
        told = {
            name: getattr(law, name) for name in ("gradient_norm", "alignment", "spike_strength")
        }
        return Made(Layer(weights), direction, {**made.measured, **told})


@MODELS.add
class Conditional(Network):
    """mu0_i(kappa) + mu1_i(kappa) <w_i, x_perp> + sqrt(mu2_i(kappa)) xi_i, kappa = <x, vh>.

    x_perp = x - kappa vh, or with a spectrum of the inputs x - kappa Omega vh.
    """

    name, meaning = "conditional", "conditional-Gaussian features of the trained network"

    def make(self, problem: Problem, replicate: Replicate, start: Start) -> Made:
        backend, made = self.backend, super().make(problem, replicate, start)
        root = replicate.key.metric.root
        weights, direction = (
            backend.to_host(each).astype(float) for each in (made.layer.weights, made.direction)
        )
        host = None if root is None else backend.to_host(root).astype(float)
        *coefficients, across = conditional_table(self.design.student, weights, direction, host)
        table = (made.direction, *(backend.to_device(each) for each in coefficients))
        return made._replace(layer=Layer(backend.to_device(across), table))

    def features(self, data: Data, layer: Layer, name: str) -> Predictions:
        direction, mean, slope, variance = layer.extra
        xp, width = self.backend.xp, self.design.sizes.width

        def conditional(
            inputs: Float[Array, "count d"], start: Place, count: int
        ) -> Float[Array, "count N"]:
            xi = data.draws.rows(f"{name} feature noise", start, count, width)
            basis = chebyshev_basis(inputs @ direction, mean.shape[0], xp)
            deviation = xp.sqrt(xp.maximum(basis @ variance, 0))
            return basis @ mean + (basis @ slope) * (inputs @ layer.weights) + deviation * xi

        return conditional

    @classmethod
    def extra_memory(cls, design: Design) -> int:
        # three copies of the weights on the host while the table is made, of up to a thousand
        # numbers a neuron
        return 3 * design.sizes.dimension * design.sizes.width + 1000 * design.sizes.width


@MODELS.add
class GaussianEquivalent(Network):
    """c0 + c1 W1^T x + sqrt(m2 - c0^2 - c1^2) xi, xi ~ N(0, I_N) ([Ba] section 4.1)."""

    name, meaning = "gaussian", "noisy linear (Gaussian equivalent) features of the trained network"

    def features(self, data: Data, layer: Layer, name: str) -> Predictions:
        moments, width = self.design.student.moments, self.design.sizes.width
        deviation = math.sqrt(max(moments.nonlinear_variance, 0.0))

        def noisy_linear(
            inputs: Float[Array, "count d"], start: Place, count: int
        ) -> Float[Array, "count N"]:
            xi = data.draws.rows(f"{name} feature noise", start, count, width)
            return moments.mean + moments.linear * (inputs @ layer.weights) + deviation * xi

        return noisy_linear


@MODELS.add
class RandomFeatures(LayerModel):
    """Features s(W0^T x)."""

    name, meaning = "random-features", "the network at initialisation (conjugate kernel)"
    is_baseline = True


class GivenFeatures(LayerModel):
    """Features s(W^T x + b) of a first layer that is given, for a teacher that is given."""

    name, meaning, draws_teacher = "features", "a first layer that is given", False

    def features(self, data: Data, layer: Layer, name: str) -> Predictions:
        if layer.extra is None:
            return super().features(data, layer, name)
        student, shift = self.design.student, layer.extra
        return lambda inputs, start, count: student.evaluate(inputs @ layer.weights + shift)

    def given(
        self,
        problem: Problem,
        streams: tuple[int, int],
        layer: Layer,
        teacher: Float[Array, "d *J"],
    ) -> Measured:
        """The fit and the test of one replicate (``streams``: seed, number); arrays on the host."""
        put = self.backend.to_device
        directions = put(teacher)
        replicate = Replicate(self._arrays.key(*streams), directions, put(problem.noise))
        bias = None if layer.extra is None else put(layer.extra)
        made = Made(Layer(put(layer.weights), bias), first_direction(directions), {})
        return self._fitted(problem, replicate, made)
