"""``Problem``: the frozen, validated record of one question. It solves nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, InstanceOf, ValidationInfo, model_validator

from firststep.activations import Activation, JaxActivation
from firststep.bayes import least_error
from firststep.checks import (
    LARGEST_RIDGE,
    MAX_SIZE,
    Bounds,
    choice,
    dimension_value,
    flag,
    number,
    ridge_values,
)
from firststep.data_faults import dimension_fault, fixed_dimension, of_the_data
from firststep.errors import Fault, InvalidParameter, shown
from firststep.fields import activation_of, flip_of, inputs_of, overlaps_of, own_overlaps
from firststep.inputs import (
    GAUSSIAN,
    LAWS,
    DataInputs,
    InputLaw,
    SpectrumInputs,
    StructuredInputs,
    TeacherOverlaps,
)
from firststep.label_faults import LATER, OF_THE_FIT, of_the_labels, of_the_losses, plain_value
from firststep.label_laws import LabelLaw, label_law
from firststep.losses import Loss, loss_of
from firststep.noise_laws import NoiseLaw, noise_law_of
from firststep.readouts import ReadoutLaw, readout_law
from firststep.records import Record, underscored
from firststep.teacher_terms import teacher_terms as terms_of

if TYPE_CHECKING:
    from firststep.typing import Array, Float


def _field(check: Callable[[Any], Any]) -> BeforeValidator:
    return BeforeValidator(check)


def _one_activation(parameter: str) -> BeforeValidator:
    return _field(lambda value: activation_of(parameter, value))


@dataclass(frozen=True)
class Sizes:
    """The whole numbers of a problem at a finite dimension."""

    dimension: int  # d
    samples: int  # n, ridge fit
    width: int  # N
    step_samples: int  # n0, gradient step


# The numbers that may also be asked for as arrays, in the order of the equations.
ARRAYS: dict[str, Bounds] = {
    "alpha": Bounds(0.0, strict=True),
    "beta": Bounds(0.0, strict=True),
    "alpha0": Bounds(0.0),
    "step": Bounds(0.0),
    "ridge": Bounds(0.0, high=LARGEST_RIDGE),
    "noise": Bounds(0.0),
}


def _overlaps(value: object, info: ValidationInfo) -> TeacherOverlaps:
    return overlaps_of(value, info.data.get("inputs"))


def _bounded(name: str) -> BeforeValidator:
    return _field(lambda v: number(name, v, *ARRAYS[name]))


class Problem(Record):
    """One question: a student, a teacher, the proportions, the step, the ridge.

    f(x) = (1/sqrt N) sum_i a_i s(<w_i, x>), w_i ~ N(0, I_d/d), a_i = at_i/sqrt N, at_i from the
    readout law. The teacher is y = s*(<x, theta>) + noise * eps. One gradient step on n0 = alpha0 d
    samples with eta = step * N**step_exponent, then ridge regression on n = alpha d fresh samples:
    minimise (1/n)|y - Phi a|^2 + (ridge/N)|a|^2, Phi = s(X W1)/sqrt N, N = beta d.

    ``ridge_convention="cui"`` converts the ridge given from sum|y - Phi a|^2 + lambda |a|^2: ridge
    = lambda * beta/alpha.
    """

    also_known: ClassVar[tuple[str, ...]] = ("ridge_convention",)

    student: Annotated[InstanceOf[Activation], _one_activation("student")] = Field(
        description="activation of the network: a name or an expression in z"
    )
    teacher: Annotated[InstanceOf[Activation], _one_activation("teacher")] = Field(
        description="activation of the teacher: a name or an expression in z"
    )
    alpha: Annotated[float, _bounded("alpha")] = Field(
        description="n/d, samples per dimension in the ridge fit"
    )
    beta: Annotated[float, _bounded("beta")] = Field(description="N/d, width per dimension")
    alpha0: Annotated[float, _bounded("alpha0")] = Field(
        default_factory=lambda data: data.get("alpha", 1.0),
        description="n0/d, samples per dimension in the gradient step; 0: no step; default: alpha",
    )
    step: Annotated[float, _bounded("step")] = Field(
        default=1.0, description="step size: eta = step * N**step-exponent"
    )
    step_exponent: Annotated[float, _field(lambda v: number("step-exponent", v, 0, high=1))] = (
        Field(default=0.5, description="0.5: the large step; 0: the small step")
    )
    ridge: Annotated[float | tuple[float, ...], _field(ridge_values)] = Field(
        default=0.01,
        description="ridge, several values, or a range such as 1e-4..1e2:13; 0: ridgeless",
    )
    noise: Annotated[float, _bounded("noise")] = Field(
        default=0.0, description="standard deviation of the label noise"
    )
    readout: Annotated[InstanceOf[ReadoutLaw], _field(readout_law)] = Field(
        default_factory=lambda: readout_law("gaussian"),
        description="law of the readout: gaussian (the default), ones, signs, or value:weight,...",
    )
    init: Annotated[
        Literal["gaussian", "sphere"], _field(lambda v: choice("init", v, ("gaussian", "sphere")))
    ] = Field(
        default="gaussian",
        description="rows of the first layer: gaussian, or sphere (scaled to norm 1)",
    )
    dimension: Annotated[float, _field(dimension_value)] = Field(
        default=math.inf, description="d, or inf where only theory is asked"
    )

    loss: Annotated[InstanceOf[Loss], _field(loss_of)] = Field(
        default_factory=lambda: loss_of("square"),
        description="loss of the readout fit: square, logistic, hinge, squared-hinge, huber:DELTA, "
        "quantile:THETA",
    )
    labels: Annotated[InstanceOf[LabelLaw], _field(label_law)] = Field(
        default_factory=lambda: label_law("real"),
        description="real, sign (y = +-1), or logit:SLOPE",
    )
    flip: Annotated[float, _field(flip_of)] = Field(
        default=0.0, description="probability that a binary label is flipped, below 0.5"
    )
    threshold: Annotated[
        float, _field(lambda v: number("threshold", v, -LARGEST_RIDGE, high=LARGEST_RIDGE))
    ] = Field(default=0.0, description="of a binary label: +1 where the teacher is above it")
    intercept: Annotated[bool, _field(lambda v: flag("intercept", v))] = Field(
        default=False, description="whether the fit has a free constant, not penalised"
    )
    step_loss: Annotated[InstanceOf[Loss], _field(lambda v: loss_of(v, "step-loss"))] = Field(
        default_factory=lambda: loss_of("square"),
        description="loss whose gradient the step takes: square or logistic",
    )
    noise_law: Annotated[InstanceOf[NoiseLaw], _field(noise_law_of)] = Field(
        default_factory=lambda: noise_law_of("gaussian"),
        description="law of the noise of real labels, times noise: gaussian, t:NU, or "
        "mixture:S@W,S@W,...",
    )
    inputs: Annotated[InstanceOf[InputLaw], _field(inputs_of)] = Field(
        default=GAUSSIAN,
        description="law of the inputs: " + ", ".join(law.form() for law in LAWS.values()) + ", or "
        "a file of samples (.npy, .npz, .parquet, .csv) with options after commas: "
        "data.npz,key=x,standardize",
    )
    teacher_overlaps: Annotated[InstanceOf[TeacherOverlaps], BeforeValidator(_overlaps)] = Field(
        default_factory=lambda data: own_overlaps(data.get("inputs")),
        description="the teacher's components along the eigenvectors of the inputs: equal (the "
        "default), random, top:SHARE, bottom:SHARE, decay:B, rise:B, numbers after commas, or file",
    )
    teacher_terms: Annotated[tuple[Activation, ...], _field(terms_of)] = Field(
        default=(),
        description="further terms of the teacher, each along a direction of its own: activations, "
        "such as relu,tanh",
    )

    if TYPE_CHECKING:

        def __init__(self, **fields: object) -> None: ...  # each is read by its own check

    @model_validator(mode="before")
    @classmethod
    def _convert_ridge(cls, data: dict[str, Any]) -> dict[str, Any]:
        convention = choice("ridge-convention", data.pop("ridge_convention", "ba"), ("ba", "cui"))
        if convention == "ba":
            return data
        if "ridge" not in data:
            raise InvalidParameter("ridge", "given together with ridge-convention cui", "nothing")
        try:
            alpha, beta = (number(name, data.get(name), 0, strict=True) for name in _RATIO)
        except InvalidParameter:
            return data  # the faults of alpha and beta are reported by their own fields
        data["ridge"] = _scaled(ridge_values(data["ridge"]), beta / alpha)
        return data

    @classmethod
    def _together(cls, table: Mapping[str, Any], made: Problem | None) -> list[Fault]:
        if made is None:
            return []
        return [*of_the_labels(made), *of_the_losses(made), *of_the_data(made)]

    @property
    def is_plain(self) -> bool:
        """Whether the fit is ridge regression on real labels with Gaussian noise."""
        return not any(name in OF_THE_FIT for name in self.beyond_plain())

    def beyond_plain(self) -> tuple[str, ...]:
        """The fields that make it another question than ridge regression on real labels of one
        direction of inputs N(0, I).
        """
        return tuple(n for n, value in LATER.items() if plain_value(getattr(self, n)) != value)

    def refuse_beyond_plain(self, allowed: str, hint: str) -> None:
        """Say so if it is one, where only ridge regression on real labels is known."""
        for name in self.beyond_plain():
            given = str(plain_value(getattr(self, name)))
            default = str(LATER[name]).lower() or "none"
            raise InvalidParameter(name.replace("_", "-"), f"{allowed}, {default}", given, hint)

    @property
    def ridges(self) -> tuple[float, ...]:
        """The ridge values, always as a tuple."""
        return self.ridge if isinstance(self.ridge, tuple) else (self.ridge,)

    @property
    def takes_step(self) -> bool:
        """Whether a step is asked for: it has samples and a size."""
        return self.alpha0 > 0 and self.step > 0

    @property
    def moves_weights(self) -> bool:
        """Whether the step that is taken has a readout to pull with."""
        return self.takes_step and self.readout.second_moment > 0

    def replace(self, **changes: object) -> Problem:
        """A copy with some fields changed. Fields left at their default stay so.

        alpha0 keeps following alpha. The ridge kept is the number in ``self.ridge``: one given in
        [Cui]'s convention is not converted again for a new alpha.
        """
        given = {name: getattr(self, name) for name in self.model_fields_set}
        changes = underscored(changes)
        if "ridge_convention" in changes and "ridge" not in changes:
            given.pop("ridge", None)  # a convention needs a ridge to convert
        return Problem(**{**given, **changes})

    @staticmethod
    def asked(value: object) -> Problem:
        """``value``, if it is a Problem."""
        if not isinstance(value, Problem):
            raise InvalidParameter("problem", "a Problem", value, "build it with Problem(...)")
        return value

    def sizes(self, dimension: object = None) -> Sizes:
        """The whole numbers n, N, n0 at a finite dimension (the problem's own if none is given:
        its ``dimension``, or where that is infinite the size of the arrays of the question).
        """
        given = self.dimension if dimension is None else dimension_value(dimension)
        if dimension is None and given == math.inf:
            given = fixed_dimension(self) or given
        if given == math.inf:
            hint = "a simulation needs a finite size, for instance 1000"
            raise InvalidParameter("dimension", "a whole number >= 2", "inf", hint)
        d = int(given)
        if fault := dimension_fault(self, d):
            raise InvalidParameter.from_faults([fault])
        ratios = {"alpha": self.alpha, "beta": self.beta, "alpha0": self.alpha0}
        for name, ratio in ratios.items():
            if ratio * d > MAX_SIZE:
                allowed = f"at most {MAX_SIZE / d:.3g} at dimension {d}"
                raise InvalidParameter(name, allowed, f"{ratio:g}")
        sizes = {name: math.floor(ratio * d + 0.5) for name, ratio in ratios.items()}
        for name, ratio in ratios.items():
            if ratio > 0 and sizes[name] < 1:
                least = 0.5 / ratio
                size = f"at least {math.ceil(least)}" if least <= MAX_SIZE else "beyond any size"
                allowed = f"{size} for {name} = {ratio:g}"
                hint = f"{name} times dimension rounds to zero"
                raise InvalidParameter("dimension", allowed, d, hint)
        return Sizes(d, *sizes.values())

    def learning_rate(self, width: int) -> float:
        """eta = step * N**step_exponent of [Ba]."""
        return float(self.step * width**self.step_exponent)

    @property
    def kernel_lower_bound(self) -> float:
        """m2* - c0*^2 - c1*^2 of the teacher, without further terms: what no fixed kernel or linear
        model can beat on inputs N(0, I) ([Ba] Prop. 1).
        """
        return self.teacher.moments.nonlinear_variance

    @property
    def bayes_error_rate(self) -> float:
        """E min(P(y = 1 | x), P(y = -1 | x)): what no classifier can beat; nan for real labels, for
        several terms, and for inputs along which <x, theta> is not N(0, 1).
        """
        is_known = self.inputs.is_gaussian or isinstance(self.inputs, StructuredInputs)
        if not self.labels.is_binary or self.teacher_terms or not is_known:
            return math.nan
        return least_error(self.label_probability, self.teacher.kinks)

    def label_probability(self, u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """P(y = 1 | u) of binary labels, u = <x, theta>."""
        return self.labels.probability(
            self.teacher.evaluate(u), noise=self.noise, threshold=self.threshold, flip=self.flip
        )

    # Notation of the papers ----------------------------------------------------------------------

    @classmethod
    def from_ba(
        cls,
        *,
        sigma: object,
        sigma_star: object,
        psi1: object,
        psi2: object,
        eta: object = 1.0,
        eta_exponent: object = 0.0,
        lambda_: object = 0.01,
        sigma_epsilon: object = 0.0,
        d: object = math.inf,
    ) -> Problem:
        """[Ba]: psi1 = n/d for both data sets, psi2 = N/d, learning rate eta * N**eta_exponent.

        Readout and rows are Gaussian.
        """
        return cls(
            student=sigma,
            teacher=sigma_star,
            alpha=psi1,
            beta=psi2,
            step=eta,
            step_exponent=eta_exponent,
            ridge=lambda_,
            noise=sigma_epsilon,
            dimension=d,
        )

    def to_ba(self) -> dict[str, Any]:
        """The arguments of ``from_ba`` that give this problem back."""
        self._require_text()
        self._require_plain("[Ba]")
        self._require("alpha0", self.alpha0 == self.alpha, "equal to alpha in [Ba]'s notation")
        self._require("readout", self.readout.is_gaussian, "gaussian in [Ba]'s notation")
        self._require("init", self.init == "gaussian", "gaussian in [Ba]'s notation")
        return {
            "sigma": str(self.student),
            "sigma_star": str(self.teacher),
            "psi1": self.alpha,
            "psi2": self.beta,
            "eta": self.step,
            "eta_exponent": self.step_exponent,
            "lambda_": self.ridge,
            "sigma_epsilon": self.noise,
            "d": self.dimension,
        }

    @classmethod
    def from_cui(
        cls,
        *,
        sigma: object,
        sigma_star: object,
        alpha: object,
        beta: object,
        alpha0: object,
        eta_tilde: object = 1.0,
        lambda_: object = 0.01,
        noise: object = 0.0,
        readout: object = "ones",
        init: object = "sphere",
        d: object = math.inf,
    ) -> Problem:
        """[Cui]: alpha = n/d, alpha0 = n0/d, beta = p/d, large step eta_tilde.

        The ridge is that of sum|y - Phi a|^2 + lambda_ |a|^2.
        """
        return cls(
            student=sigma,
            teacher=sigma_star,
            alpha=alpha,
            beta=beta,
            alpha0=alpha0,
            step=eta_tilde,
            step_exponent=0.5,
            ridge=lambda_,
            ridge_convention="cui",
            noise=noise,
            readout=readout,
            init=init,
            dimension=d,
        )

    def to_cui(self) -> dict[str, Any]:
        """The arguments of ``from_cui`` that give this problem back."""
        self._require_text()
        self._require_plain("[Cui]")
        self._require("step_exponent", self.step_exponent == 0.5, "0.5 in [Cui]'s notation")
        return {
            "sigma": str(self.student),
            "sigma_star": str(self.teacher),
            "alpha": self.alpha,
            "beta": self.beta,
            "alpha0": self.alpha0,
            "eta_tilde": self.step,
            "lambda_": _scaled(self.ridge, self.alpha / self.beta),
            "noise": self.noise,
            "readout": str(self.readout),
            "init": self.init,
            "d": self.dimension,
        }

    def _require_text(self) -> None:
        for name in ("student", "teacher"):
            is_text = not isinstance(getattr(self, name), JaxActivation)
            self._require(name, is_text, "a name or an expression to be written as text")
        for term in self.teacher_terms:
            is_text = not isinstance(term, JaxActivation)
            self._require("teacher_terms", is_text, "names or expressions to be written as text")
        if isinstance(self.inputs, DataInputs | SpectrumInputs):
            is_file = self.inputs.name != "array"
            self._require("inputs", is_file, "read from a file to be written as text")

    def _require_plain(self, paper: str) -> None:
        for name, value in LATER.items():
            word = str(value).lower() or "none"
            is_default = plain_value(getattr(self, name)) == value
            self._require(name, is_default, f"{word} in {paper}'s notation")

    def _require(self, name: str, holds: bool, allowed: str) -> None:
        if not holds:
            given = str(plain_value(getattr(self, name)))
            raise InvalidParameter(name.replace("_", "-"), allowed, given)

    # Files ---------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain values that build the same problem again, fit for JSON."""
        values = self.all_values()
        own = {"teacher_overlaps": str(own_overlaps(self.inputs))}
        for name, default in LATER.items():  # left out there, so that old keys stay
            if values[name] == default == own.get(name, default):
                del values[name]
        return values

    def all_values(self) -> dict[str, Any]:
        """Every field as a plain value, those that ``to_dict`` leaves out too."""
        values = super().to_dict()
        for name in ("student", "teacher", "readout", *LATER):
            values[name] = plain_value(values[name])
        values["ridge"] = list(self.ridge) if isinstance(self.ridge, tuple) else self.ridge
        values["dimension"] = "inf" if self.dimension == math.inf else int(self.dimension)
        return values

    def to_toml(self) -> str:
        """The problem as TOML text, one field a line, with the names of the command line."""
        self._require_text()
        return super().to_toml()

    def __str__(self) -> str:
        parts = [f"{name}={shown(str(value))}" for name, value in self.to_dict().items()]
        return f"Problem({', '.join(parts)})"

    __repr__ = __str__


_RATIO = ("alpha", "beta")  # of the two conventions of the ridge


def _scaled(ridge: float | tuple[float, ...], by: float) -> float | tuple[float, ...]:
    return tuple(by * value for value in ridge) if isinstance(ridge, tuple) else by * ridge
