"""``Problem``: the frozen, validated record of one question. It solves nothing."""

from __future__ import annotations

import math
import operator
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    ValidationError,
    model_validator,
)

from firststep.activations import Activation, JaxActivation, activation
from firststep.errors import Fault, InvalidParameter, nearest, shown
from firststep.readouts import ReadoutLaw, readout_law

RIDGE_ALLOWED = (
    "a number from 0 to 1e30, several of them, or a range such as 1e-4..1e2:13 "
    "(13 values, evenly spaced in the logarithm)"
)


def number(
    parameter: str, value: Any, low: float, strict: bool = False, high: float = math.inf
) -> float:
    """``value`` as a finite float in [low, high] (or (low, high] if ``strict``)."""
    allowed = f"a finite number {'>' if strict else '>='} {low:g}" + (
        f" and <= {high:g}" if high < math.inf else ""
    )
    try:
        if isinstance(value, bool):
            raise TypeError
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(parameter, allowed, value) from None
    if not math.isfinite(result) or result > high or (result <= low if strict else result < low):
        raise InvalidParameter(parameter, allowed, value)
    return result


def whole(parameter: str, value: Any, low: int, high: int | None = None) -> int:
    """``value`` as an integer in [low, high], exactly: no digit of a long seed is lost."""
    allowed = f"a whole number >= {low}" + (
        f" and <= {high if high < 10**6 else f'{high:.0e}'}" if high is not None else ""
    )
    try:
        if isinstance(value, bool):
            raise TypeError
        try:
            result = int(value) if isinstance(value, str) else operator.index(value)
        except (TypeError, ValueError):
            result = int(float(value))
            if result != float(value):
                raise ValueError from None
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(parameter, allowed, value) from None
    if result < low or (high is not None and result > high):
        raise InvalidParameter(parameter, allowed, value)
    return result


def choice(parameter: str, value: Any, options: Iterable[str]) -> str:
    """``value`` if it is one of ``options``."""
    options = tuple(options)
    if not isinstance(value, str) or value not in options:
        raise InvalidParameter(
            parameter, "one of " + ", ".join(options), value, nearest(str(value), options)
        )
    return value


def ridge_values(source: Any) -> float | tuple[float, ...]:
    """One ridge value, or a tuple of several, from numbers, sequences and texts.

    Such as ``0.1,1`` or ``1e-4..1e2:13``.
    """
    if isinstance(source, str):
        parts = [part for part in source.replace(",", " ").split() if part]
        values = [value for part in parts for value in _ridge_text(part, source)]
        several = len(values) != 1
    elif isinstance(source, Sequence) or (isinstance(source, np.ndarray) and source.ndim > 0):
        nested = [ridge_values(each) for each in source]
        values = [v for each in nested for v in (each if isinstance(each, tuple) else (each,))]
        several = len(values) != 1 or not isinstance(source, list)
    else:
        values, several = [_ridge_number(source)], False
    if not values:
        raise InvalidParameter("ridge", RIDGE_ALLOWED, source)
    return tuple(values) if several else values[0]


def _ridge_number(value: Any) -> float:
    try:
        return number("ridge", value, 0.0, high=ARRAYS["ridge"].high)
    except InvalidParameter:
        raise InvalidParameter("ridge", RIDGE_ALLOWED, value) from None


def _ridge_text(part: str, whole_text: str) -> list[float]:
    if ".." not in part:
        return [_ridge_number(part)]
    try:
        ends, count_text = part.split(":")
        low, high = (float(end) for end in ends.split(".."))
        count = int(count_text)
    except ValueError:
        raise InvalidParameter("ridge", RIDGE_ALLOWED, whole_text) from None
    if not (0 < low < high < math.inf) or not 2 <= count <= 10_000:
        hint = "a range needs 0 < first < last and 2 to 10000 values"
        raise InvalidParameter("ridge", RIDGE_ALLOWED, whole_text, hint)
    return [float(value) for value in np.geomspace(low, high, count)]


def dimension_value(source: Any) -> float:
    """A whole number >= 2, or infinity."""
    allowed = "a whole number >= 2 and <= 1e9, or inf where only theory is asked"
    try:
        if isinstance(source, str) and source.strip().lower() in ("inf", "infinity"):
            return math.inf
        if isinstance(source, float) and source == math.inf:
            return math.inf
        return whole("dimension", source, 2, MAX_SIZE)
    except InvalidParameter:
        raise InvalidParameter("dimension", allowed, source) from None


def _field(check: Callable[[Any], Any]) -> BeforeValidator:
    return BeforeValidator(check)


def _student(source: Any) -> Activation:
    return _named_student(source) if isinstance(source, str) else _checked_student(source)


def _teacher(source: Any) -> Activation:
    return _named_teacher(source) if isinstance(source, str) else _checked_teacher(source)


@lru_cache(maxsize=1024)
def _named_student(text: str) -> Activation:
    """A grid of problems integrates its activations once."""
    return _checked_student(text)


@lru_cache(maxsize=1024)
def _named_teacher(text: str) -> Activation:
    return _checked_teacher(text)


def _checked_student(source: Any) -> Activation:
    made = activation(source, parameter="student")
    _integrable("student", lambda: (made.moments, made.slope_moments))
    if made.moments.second_moment - made.moments.mean**2 < 1e-20:
        raise InvalidParameter("student", "an activation that is not constant", str(made))
    return made


def _checked_teacher(source: Any) -> Activation:
    made = activation(source, parameter="teacher")
    _integrable("teacher", lambda: made.moments)
    return made


def _integrable(parameter: str, compute: Callable[[], Any]) -> None:
    try:
        compute()
    except InvalidParameter as error:
        faults = [
            Fault(parameter, fault.allowed, fault.given, fault.hint) for fault in error.faults
        ]
        raise InvalidParameter.from_faults(faults) from None


MAX_SIZE = (
    10**9
)  # of any of d, n, N, n0: far beyond any memory, near enough that no arithmetic overflows


@dataclass(frozen=True)
class Sizes:
    """The whole numbers of a problem at a finite dimension."""

    dimension: int  # d
    samples: int  # n, ridge fit
    width: int  # N
    step_samples: int  # n0, gradient step


class Bounds(NamedTuple):
    """What a number may be: at least ``low`` (more, if ``strict``) and at most ``high``."""

    low: float
    strict: bool = False
    high: float = math.inf


# The numbers that may also be asked for as arrays, in the order of the equations.
ARRAYS: dict[str, Bounds] = {
    "alpha": Bounds(0.0, strict=True),
    "beta": Bounds(0.0, strict=True),
    "alpha0": Bounds(0.0),
    "step": Bounds(0.0),
    "ridge": Bounds(0.0, high=1e30),
    "noise": Bounds(0.0),
}


def _bounded(name: str) -> BeforeValidator:
    bounds = ARRAYS[name]
    return _field(lambda v: number(name, v, bounds.low, bounds.strict, bounds.high))


class Problem(BaseModel):
    """One question: a student, a teacher, the proportions, the step, the ridge.

    f(x) = (1/sqrt N) sum_i a_i s(<w_i, x>), w_i ~ N(0, I_d/d), a_i = at_i/sqrt N, at_i from the
    readout law. The teacher is y = s*(<x, theta>) + noise * eps. One gradient step on n0 = alpha0 d
    samples with eta = step * N**step_exponent, then ridge regression on n = alpha d fresh samples:
    minimise (1/n)|y - Phi a|^2 + (ridge/N)|a|^2, Phi = s(X W1)/sqrt N, N = beta d.

    ``ridge_convention="cui"`` converts the ridge given from sum|y - Phi a|^2 + lambda |a|^2: ridge
    = lambda * beta/alpha.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    student: Annotated[InstanceOf[Activation], _field(_student)] = Field(
        description="activation of the network: a name or an expression in z"
    )
    teacher: Annotated[InstanceOf[Activation], _field(_teacher)] = Field(
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

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise InvalidParameter.from_faults(_faults(error)) from None

    @model_validator(mode="before")
    @classmethod
    def _convert_ridge(cls, data: Any) -> Any:
        data = underscored(data)
        convention = choice("ridge-convention", data.pop("ridge_convention", "ba"), ("ba", "cui"))
        if convention == "cui":
            if "ridge" not in data:
                raise InvalidParameter(
                    "ridge", "given together with ridge-convention cui", "nothing"
                )
            try:
                scale = number("beta", data.get("beta"), 0, strict=True) / number(
                    "alpha", data.get("alpha"), 0, strict=True
                )
            except InvalidParameter:
                return data  # the faults of alpha and beta are reported by their own fields
            given = ridge_values(data["ridge"])
            data["ridge"] = (
                tuple(scale * v for v in given) if isinstance(given, tuple) else scale * given
            )
        return data

    @property
    def ridges(self) -> tuple[float, ...]:
        """The ridge values, always as a tuple."""
        return self.ridge if isinstance(self.ridge, tuple) else (self.ridge,)

    @property
    def takes_step(self) -> bool:
        return self.alpha0 > 0 and self.step > 0

    def replace(self, **changes: Any) -> Problem:
        """A copy with some fields changed.

        Fields left at their default stay so: alpha0 keeps following alpha.

        The ridge kept is the number in ``self.ridge``: one given in [Cui]'s convention is not
        converted again for a new alpha.
        """
        given = {name: getattr(self, name) for name in self.model_fields_set}
        changes = underscored(changes)
        if "ridge_convention" in changes and "ridge" not in changes:
            del given["ridge"]
        return Problem(**{**given, **changes})

    def sizes(self, dimension: Any = None) -> Sizes:
        """The whole numbers n, N, n0 at a finite dimension (the problem's own if none is given)."""
        given = self.dimension if dimension is None else dimension_value(dimension)
        if given == math.inf:
            hint = "a simulation needs a finite size, for instance 1000"
            raise InvalidParameter("dimension", "a whole number >= 2", "inf", hint)
        d = int(given)
        for name, ratio in (("alpha", self.alpha), ("beta", self.beta), ("alpha0", self.alpha0)):
            if ratio * d > MAX_SIZE:
                raise InvalidParameter(
                    name, f"at most {MAX_SIZE / d:.3g} at dimension {d}", f"{ratio:g}"
                )
        n, width, n0 = (_nearest_whole(ratio * d) for ratio in (self.alpha, self.beta, self.alpha0))
        for name, ratio, size in (
            ("alpha", self.alpha, n),
            ("beta", self.beta, width),
            ("alpha0", self.alpha0, n0),
        ):
            if ratio > 0 and size < 1:
                allowed = f"at least {math.ceil(0.5 / ratio)} for {name} = {ratio:g}"
                raise InvalidParameter(
                    "dimension", allowed, d, f"{name} times dimension rounds to zero"
                )
        return Sizes(d, n, width, n0)

    def learning_rate(self, width: int) -> float:
        """eta = step * N**step_exponent of [Ba]."""
        return float(self.step * width**self.step_exponent)

    @property
    def kernel_lower_bound(self) -> float:
        """m2* - c0*^2 - c1*^2: what no fixed kernel or linear model can beat ([Ba] Prop. 1)."""
        return self.teacher.moments.nonlinear_variance

    # Notation of the papers ----------------------------------------------------------------------

    @classmethod
    def from_ba(
        cls,
        *,
        sigma: Any,
        sigma_star: Any,
        psi1: Any,
        psi2: Any,
        eta: Any = 1.0,
        eta_exponent: Any = 0.0,
        lambda_: Any = 0.01,
        sigma_epsilon: Any = 0.0,
        d: Any = math.inf,
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
        self._require(
            "alpha0", self.alpha0 == self.alpha, "equal to alpha in [Ba]'s notation", self.alpha0
        )
        self._require(
            "readout", self.readout.is_gaussian, "gaussian in [Ba]'s notation", self.readout
        )
        self._require("init", self.init == "gaussian", "gaussian in [Ba]'s notation", self.init)
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
        sigma: Any,
        sigma_star: Any,
        alpha: Any,
        beta: Any,
        alpha0: Any,
        eta_tilde: Any = 1.0,
        lambda_: Any = 0.01,
        noise: Any = 0.0,
        readout: Any = "ones",
        init: Any = "sphere",
        d: Any = math.inf,
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
        self._require(
            "step-exponent",
            self.step_exponent == 0.5,
            "0.5 in [Cui]'s notation",
            self.step_exponent,
        )
        scale = self.alpha / self.beta
        ridge = (
            tuple(scale * v for v in self.ridge)
            if isinstance(self.ridge, tuple)
            else scale * self.ridge
        )
        return {
            "sigma": str(self.student),
            "sigma_star": str(self.teacher),
            "alpha": self.alpha,
            "beta": self.beta,
            "alpha0": self.alpha0,
            "eta_tilde": self.step,
            "lambda_": ridge,
            "noise": self.noise,
            "readout": str(self.readout),
            "init": self.init,
            "d": self.dimension,
        }

    def _require_text(self) -> None:
        for name in ("student", "teacher"):
            made = getattr(self, name)
            self._require(
                name,
                not isinstance(made, JaxActivation),
                "a name or an expression to be written as text",
                made,
            )

    @staticmethod
    def _require(parameter: str, holds: bool, allowed: str, given: Any) -> None:
        if not holds:
            raise InvalidParameter(parameter, allowed, str(given))

    # Files ---------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain values that build the same problem again, fit for JSON."""
        values: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        values.update(
            student=str(self.student), teacher=str(self.teacher), readout=str(self.readout)
        )
        values["ridge"] = list(self.ridge) if isinstance(self.ridge, tuple) else self.ridge
        values["dimension"] = "inf" if self.dimension == math.inf else int(self.dimension)
        return values

    def to_toml(self) -> str:
        """The problem as TOML text, one field a line, with the names of the command line."""
        self._require_text()
        lines = []
        for name, value in self.to_dict().items():
            text = f'"{value}"' if isinstance(value, str) and value != "inf" else str(value)
            lines.append(f"{name.replace('_', '-')} = {text}")
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, path: str | Path, **changes: Any) -> Problem:
        """The problem written in a TOML file, with some fields changed."""
        return cls(**{**read_toml(path), **changes})

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in self.to_dict().items()]
        return f"Problem({', '.join(parts)})"

    __repr__ = __str__


def _nearest_whole(value: float) -> int:
    return math.floor(value + 0.5)


def read_toml(path: str | Path) -> dict[str, Any]:
    """The table in a TOML file, keys with underscores."""
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidParameter(
            "problem", "a readable TOML file", str(path), error.strerror or ""
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter("problem", "a valid TOML file", str(path), str(error)) from None
    return underscored(table)


def underscored(table: Mapping[str, Any]) -> dict[str, Any]:
    """Keys with underscores for hyphens; the same key given both ways is refused."""
    renamed: dict[str, Any] = {}
    for key, value in table.items():
        if (name := key.replace("-", "_")) in renamed:
            raise InvalidParameter(key, "given once", "twice, with a hyphen and with an underscore")
        renamed[name] = value
    return renamed


def _faults(error: ValidationError) -> list[Fault]:
    """Every fault pydantic found, in our form."""
    fields: Mapping[str, Any] = Problem.model_fields
    faults: list[Fault] = []
    for detail in error.errors():
        if detail["type"] == "default_factory_not_called":
            continue  # alpha0 follows alpha, whose own fault is reported
        cause = detail.get("ctx", {}).get("error")
        parameter = str(detail["loc"][0]).replace("_", "-") if detail["loc"] else "problem"
        if isinstance(cause, InvalidParameter):
            faults.extend(cause.faults)
        elif detail["type"] == "missing":
            faults.append(
                Fault(parameter, "given", "nothing", str(fields[str(detail["loc"][0])].description))
            )
        elif detail["type"] == "extra_forbidden":
            known = [name.replace("_", "-") for name in fields] + ["ridge-convention"]
            hint = nearest(parameter, known) or f"the fields are {', '.join(known)}"
            faults.append(Fault(parameter, "a field of Problem", shown(detail["input"]), hint))
        else:
            faults.append(Fault(parameter, detail["msg"], shown(detail["input"])))
    return faults
