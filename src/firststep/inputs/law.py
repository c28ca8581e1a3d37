"""What a law of the inputs is: text, bounds, arrays, and rows made of Gaussian numbers."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from firststep.errors import InvalidParameter
from firststep.registry import Registry

if TYPE_CHECKING:
    from types import ModuleType

    from firststep.typing import Array, Float, Int

    Spectrum = tuple[Float[Array, " d"], Float[Array, "d d"] | None]


class Held:
    """An array that does not change, compared by its content."""

    def __init__(self, array: object) -> None:
        # a copy: what is given may change
        self.array: Array = np.array(array, dtype=np.float64, order="C")
        self.array.flags.writeable = False
        head = "x".join(str(size) for size in self.array.shape)
        self.sha256 = hashlib.sha256(head.encode() + self.array.data).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __repr__(self) -> str:
        shape = " x ".join(str(size) for size in self.array.shape)
        return f"Held({shape}, sha256={self.sha256[:12]})"


class Streams(Protocol):
    """The random numbers of one replicate, by purpose (``simulation.randomness.PURPOSES``)."""

    def vector(self, purpose: str, length: int) -> Float[Array, " length"]: ...
    def uniform(self, purpose: str, length: int) -> Float[Array, " length"]: ...


class Block(Protocol):
    """Where the rows of one block come from. The simulator has one for NumPy and for JAX."""

    @property
    def xp(self) -> ModuleType: ...  # numpy or jax.numpy
    @property
    def special(self) -> ModuleType: ...  # scipy.special or jax.scipy.special
    @property
    def arrays(self) -> tuple[Array, ...]: ...  # the law's shared arrays, then its own
    def entries(self) -> Float[Array, "rows d"]: ...  # independent N(0, 1) numbers
    def scales(self) -> Float[Array, "rows 1"]: ...  # one more of them for every row
    def part(self, order: Int[Array, " all"]) -> Int[Array, " rows"]: ...  # of an order of all rows


@dataclass(frozen=True)
class InputLaw(ABC):
    """A law of the inputs: one subclass for each, registered in ``LAWS``.

    Build one with ``input_law(...)``, ``DataInputs.load(path)`` or ``CovarianceInputs.of(matrix)``.
    """

    parameter: float | None = None
    held: Held | None = field(default=None, repr=False)

    kind: ClassVar[str]  # its name in a text
    meaning: ClassVar[str]
    letter: ClassVar[str] = ""  # of the parameter; none: the law has no parameter
    parameter_meaning: ClassVar[str] = ""
    low: ClassVar[float] = 0.0  # what the parameter must exceed
    high: ClassVar[float] = 1e6  # and what it may not exceed
    is_gaussian: ClassVar[bool] = False  # x ~ N(0, I): what the theory is about
    has_unit_covariance: ClassVar[bool] = True
    counted: ClassVar[str] = "columns"  # what fixes d, of a law that comes with an array
    knows_covariance: ClassVar[bool] = True  # E[x x^T], rather than only samples

    @abstractmethod
    def rows(self, block: Block) -> Float[Array, "rows d"]:
        """Rows of this law from the Gaussian numbers of a block."""

    def shared_arrays(self, dimension: int) -> tuple[Array, ...]:
        """What all replicates need: a table, scales of the columns, or the law's own array."""
        return () if self.held is None else (self.held.array,)

    def own_arrays(self, xp: ModuleType, streams: Streams, dimension: int) -> tuple[Array, ...]:
        """What is drawn once for a replicate: an axis, an order of rows."""
        return ()

    def spectrum(self, dimension: int) -> Spectrum:
        """Eigenvalues of E[x x^T] and its eigenvectors as columns; None: the coordinate axes.

        To be asked of laws that know it; those of another covariance than I say it themselves.
        """
        assert self.has_unit_covariance
        return np.ones(dimension), None

    @property
    def dimension(self) -> int | None:
        """d, where the law fixes it."""
        return self.held.array.shape[1] if self.held is not None else None

    def refuse_dimension(self, dimension: int) -> None:
        """Say so if there are no inputs of this law in so many dimensions."""
        if self.dimension not in (None, dimension):
            allowed = f"{self.dimension}, the number of {self.counted} of the inputs"
            raise InvalidParameter("dimension", allowed, dimension)

    @property
    def available_rows(self) -> int | None:
        """How many rows there are, where they run out."""
        return None

    def describe(self) -> dict[str, Any]:
        """What a result keeps of the law besides its text: of an array its name, shape and hash."""
        return {}

    @classmethod
    def of_text(cls, number: str, source: str) -> InputLaw:
        """The law with the parameter written after the colon of ``source``."""
        if not cls.letter:
            if number:
                raise InvalidParameter("inputs", f"{cls.kind} without a number", source)
            return cls()
        words = f"{cls.parameter_meaning}, > {cls.low:g} and <= {cls.high:g}"
        try:
            value = float(number)
            if not cls.low < value <= cls.high:
                raise ValueError
        except ValueError:
            raise InvalidParameter("inputs", f"{cls.form()}, {words}", source) from None
        return cls(value)

    @classmethod
    def form(cls) -> str:
        """How the law is written."""
        return f"{cls.kind}:{cls.letter}" if cls.letter else cls.kind

    def __str__(self) -> str:
        if self.parameter is None:
            return self.kind
        whole = int(self.parameter) if self.parameter == int(self.parameter) else self.parameter
        return f"{self.kind}:{whole!r}"


LAWS: Registry[InputLaw] = Registry("inputs", label="kind")
