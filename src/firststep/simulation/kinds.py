"""Models and optimisers: what can be added to a simulation, each a class registered once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from firststep.registry import Registry

if TYPE_CHECKING:
    from types import ModuleType

    from firststep.problem import Problem, Sizes
    from firststep.simulation.backends import Backend
    from firststep.simulation.design import Design
    from firststep.simulation.weights.whitening import Inverse
    from firststep.typing import Array, Float

Measured = dict[str, Any]  # measurements of one replicate: numbers and arrays on the host


class Model(ABC):
    """One kind of experiment, as a class; an object of it is made ready for a design and a backend.

    What compiled code depends on is in the design; eta, noise and ridges come with the problem.
    """

    name: ClassVar[str]
    meaning: ClassVar[str]
    trains: ClassVar[bool] = False  # really takes the gradient steps
    has_step: ClassVar[bool] = False  # trains, or has a model of the step
    is_network: ClassVar[bool] = False  # a readout fitted on the features of a first layer
    is_baseline: ClassVar[bool] = False
    draws_teacher: ClassVar[bool] = True  # rather than being given one
    several_terms: ClassVar[bool] = True  # can have a teacher of several terms
    knows_spectra: ClassVar[bool] = True  # can have inputs with a spectrum
    default_kernel: ClassVar[str] = ""  # g of a kernel baseline, as an expression

    def __init__(self, design: Design, backend: Backend) -> None:
        self.design, self.backend = design, backend

    @abstractmethod
    def replicate(self, problem: Problem, seed: int, number: int) -> Measured:
        """All measurements of one replicate. To be called inside ``backend.scope()``."""

    @classmethod
    @abstractmethod
    def memory(cls, design: Design, itemsize: int) -> int:
        """Bytes of one replicate at its peak, rather a little too many than too few."""


class Optimizer(ABC):
    """The change of the weights from one gradient after the other; the state of one training."""

    name: ClassVar[str]
    meaning: ClassVar[str]
    state_arrays: ClassVar[int] = 0  # of the size of the weights, for the estimate of memory
    square_arrays: ClassVar[int] = 0  # and of d x d
    starts_as_gradient: ClassVar[bool] = True  # the first step is along the gradient
    turns: ClassVar[bool] = False  # takes the step in another direction than the gradient's
    is_flat: ClassVar[bool] = False  # all singular values of a change are equal
    covariance: ClassVar[str] = ""  # whose inverse it is told: of the "batch", or of the "law"

    def __init__(self, sizes: Sizes, xp: ModuleType, learning_rate: float) -> None:
        self.sizes, self.xp, self.learning_rate = sizes, xp, learning_rate
        self.inverse: Inverse | None = None  # of the covariance, where it asks for one

    @abstractmethod
    def change(self, gradient: Float[Array, "d N"]) -> Float[Array, "d N"]:
        """What is added to the weights, from the ascent direction G; the gradient is used up."""

    @classmethod
    def work(cls, sizes: Sizes) -> float:
        """Floating-point operations of a step beside the gradient, roughly: decompositions."""
        return 0.0


MODELS: Registry[Model] = Registry("model")
OPTIMIZERS: Registry[Optimizer] = Registry("optimizer")
