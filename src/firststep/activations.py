"""Activations: a function of z with its kinks, its derivative and its Gaussian moments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep import expressions
from firststep.errors import InvalidParameter
from firststep.expressions import ACTIVATIONS, Expression
from firststep.kinks import kinks as kinks_of
from firststep.numerics.library import library_of
from firststep.numerics.quadrature import Expectation, NotIntegrable, gaussian_expectation
from firststep.parsing import parse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from firststep.numerics.quadrature import Function, Integrands
    from firststep.typing import Array, Float

ALLOWED = (
    "a named activation, an expression in z such as tanh(2*z) + 0.5*(z**2-1), "
    "or a function of one array"
)

_ROUNDING = 1e-24  # of a mean square: what is left of a linear function has digits of no meaning


@dataclass(frozen=True)
class Moments:
    """Gaussian moments of an activation s, z ~ N(0, 1)."""

    mean: float  # c0 = E s
    linear: float  # c1 = E z s
    quadratic: float  # c2 = E (z^2 - 1) s
    second_moment: float  # m2 = E s^2
    nonlinear_variance: float  # m2 - c0^2 - c1^2, computed as E (s - c0 - c1 z)^2
    error: float  # a bound on the numerical error of each


@dataclass(frozen=True)
class SlopeMoments:
    """Gaussian moments of s' almost everywhere, which is what a gradient sees.

    For a continuous s, mean = c1 and linear = c2 of ``Moments``; for a jump (sign) they differ.
    """

    mean: float  # E s'
    linear: float  # E z s'
    variance: float  # tau = Var s'
    error: float  # a bound on the numerical error of each


class Activation:
    """An activation: ``activation(...)`` builds it from a name, an expression or a callable.

    Equal texts give equal activations; ``str`` is a text that builds the same activation again.
    """

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        self.slope = expressions.differentiate(expression)

    def evaluate(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """s(z), in the array library of z."""
        return expressions.evaluate([self.expression], z)[0]

    def evaluate_derivative(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """s'(z), almost everywhere."""
        return expressions.evaluate([self.slope], z)[0]

    def evaluate_both(
        self, z: Float[Array, "*shape"]
    ) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        """s(z) and s'(z), sharing what they have in common."""
        value, slope = expressions.evaluate([self.expression, self.slope], z)
        return value, slope

    def __call__(self, z: ArrayLike) -> Any:
        return _at(z, self.evaluate)

    def derivative(self, z: ArrayLike) -> Any:
        """s'(z), almost everywhere."""
        return _at(z, self.evaluate_derivative)

    @cached_property
    def kinks(self) -> tuple[float, ...]:
        """Points where s or s' may jump."""
        return kinks_of(self.expression)

    def _expectation(self, what: str, integrands: Integrands, floor: float = 0.0) -> Expectation:
        try:
            return gaussian_expectation(integrands, self.kinks, floor=floor)
        except NotIntegrable as error:
            allowed = f"an activation {what} square integrable under N(0, 1)"
            raise InvalidParameter("activation", allowed, str(self), str(error)) from None

    @cached_property
    def moments(self) -> Moments:
        """Moments of s by adaptive quadrature split at the kinks."""

        def powers(z: Float[Array, " z"]) -> Float[Array, "functions z"]:
            value = self.evaluate(z)
            return np.stack([value, z * value, (z * z - 1) * value, value**2])

        first = self._expectation("that is", powers)
        c0, c1, c2, m2 = (float(v) for v in first.value)
        second = self._expectation(
            "that is", lambda z: (self.evaluate(z) - c0 - c1 * z) ** 2, floor=_ROUNDING * m2
        )
        return Moments(
            mean=c0,
            linear=c1,
            quadratic=c2,
            second_moment=m2,
            nonlinear_variance=float(second.value[0]),
            error=float(max(first.error.max(), second.error[0])),
        )

    @cached_property
    def slope_moments(self) -> SlopeMoments:
        """Moments of s' by adaptive quadrature split at the kinks."""

        def powers(z: Float[Array, " z"]) -> Float[Array, "functions z"]:
            slope = self.evaluate_derivative(z)
            return np.stack([slope, z * slope])

        what = "whose derivative is"
        first = self._expectation(what, powers)
        mean, linear = (float(v) for v in first.value)
        second = self._expectation(
            what, lambda z: (self.evaluate_derivative(z) - mean) ** 2, floor=_ROUNDING * mean**2
        )
        error = float(max(first.error.max(), second.error[0]))
        return SlopeMoments(mean, linear, float(second.value[0]), error)

    def hermite_coefficients(self, degree: int) -> Float[Array, " degrees"]:
        """E[s(z) He_k(z)] for k = 0 .. degree, probabilists' Hermite polynomials, unnormalised."""

        def integrands(z: Float[Array, " z"]) -> Float[Array, "functions z"]:
            polynomials = [np.ones_like(z), z]
            for k in range(1, degree):
                polynomials.append(z * polynomials[-1] - k * polynomials[-2])
            return np.stack(polynomials[: degree + 1]) * self.evaluate(z)

        if degree < 0:
            raise InvalidParameter("degree", "a whole number >= 0", degree)
        return self._expectation("that is", integrands).value

    @cached_property
    def _text(self) -> str:
        return expressions.name_of(self.expression)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Activation({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Activation) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_nodes, (expressions.to_nodes(self.expression),)


def _at(z: ArrayLike, function: Function) -> Any:
    """The function of an array, or of a number."""
    array = np.asarray(z, dtype=float)
    return function(np.atleast_1d(array)).reshape(array.shape)[()]


def _from_nodes(nodes: list[tuple[str, tuple[int, ...], float]]) -> Activation:
    return Activation(expressions.from_nodes(nodes))


class JaxActivation(Activation):
    """An activation given as a JAX function; its derivative comes from ``jax.grad``.

    It works on both backends, but has no text: a problem that uses one cannot be written to a file,
    and its kinks must be given.
    """

    def __init__(self, function: Callable[[Any], Any], kinks: Sequence[float] = ()) -> None:
        import jax

        self._function = function
        self._kinks = tuple(sorted(float(kink) for kink in kinks))
        self._gradient = jax.vmap(jax.grad(lambda x: function(x).sum()))
        self._value_on_host = jax.jit(function)
        self._slope_on_host = jax.jit(self._slope)

    def _slope(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return self._gradient(z.ravel()).reshape(z.shape)

    def _on_host(
        self, function: Callable[[Any], Any], z: Float[Array, "*shape"]
    ) -> Float[Array, "*shape"]:
        import jax

        with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
            return np.array(function(z), dtype=z.dtype)

    def evaluate(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        on_host = library_of(z).is_numpy
        return self._on_host(self._value_on_host, z) if on_host else self._function(z)

    def evaluate_derivative(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        on_host = library_of(z).is_numpy
        return self._on_host(self._slope_on_host, z) if on_host else self._slope(z)

    def evaluate_both(
        self, z: Float[Array, "*shape"]
    ) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        return self.evaluate(z), self.evaluate_derivative(z)

    @property
    def kinks(self) -> tuple[float, ...]:
        return self._kinks

    def __str__(self) -> str:
        return f"<function {getattr(self._function, '__qualname__', repr(self._function))}>"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, JaxActivation)
            and self._function is other._function
            and self._kinks == other._kinks
        )

    def __hash__(self) -> int:
        return hash((self._function, self._kinks))

    def __reduce__(self) -> tuple[Any, ...]:
        return JaxActivation, (self._function, self._kinks)


def activation(
    source: object, *, kinks: Sequence[float] = (), parameter: str = "activation"
) -> Activation:
    """The activation meant by a name, an expression in z, a NumPy or JAX function, or itself.

    A function written with NumPy (``lambda z: np.tanh(2*z)``) is traced into an expression, so its
    derivative, its kinks and its text are known; np.where, np.clip and the like cannot be traced:
    use np.maximum, np.minimum, np.abs. A function written with ``jax.numpy`` is differentiated by
    JAX; give its ``kinks`` if it has any.
    """
    if isinstance(source, Activation):
        return source
    if isinstance(source, str):
        return Activation(parse(source, parameter))
    if not callable(source):
        raise InvalidParameter(parameter, ALLOWED, source)
    traced = expressions.trace(source)
    if traced is not None:
        return Activation(traced)
    return _from_jax_function(source, parameter, kinks)


def _from_jax_function(
    function: Callable[[Any], Any], parameter: str, kinks: Sequence[float]
) -> JaxActivation:
    hint = (
        "use + - * / ** and NumPy functions such as np.tanh, np.maximum, scipy.special.erf, "
        "or jax.numpy functions"
    )
    name = getattr(function, "__qualname__", repr(function))
    try:
        made = JaxActivation(function, kinks)
        probe = np.linspace(-2.0, 2.0, 5)
        value, slope = made.evaluate_both(probe)
    except Exception:  # foreign code may fail in any way; the message says what would work
        told = f"it could not be traced; {hint}"
        raise InvalidParameter(parameter, ALLOWED, name, told) from None
    if value.shape != probe.shape or not np.all(np.isfinite([value, slope])):
        told = "it must return one finite number for every entry of its array"
        raise InvalidParameter(parameter, ALLOWED, name, told)
    return made


def names() -> tuple[str, ...]:
    """The named activations."""
    return tuple(ACTIVATIONS)
