"""firststep: what one gradient step does to a two-layer network, in theory and at finite size.

This is the only public door. Importing it loads neither matplotlib nor JAX.
"""

from firststep.activations import Activation, activation
from firststep.errors import (
    BackendUnavailable,
    FirststepError,
    InvalidParameter,
    NotConverged,
    NotEnoughMemory,
    WorkerFailed,
)
from firststep.problem import Problem
from firststep.readouts import ReadoutLaw, readout_law
from firststep.results import Baselines, Estimate, Interrupted, Simulation
from firststep.simulation.run import baselines, simulate
from firststep.simulation.workers import Workers
from firststep.theory.predict import predict
from firststep.theory.prediction import Prediction

__version__ = "0.1.0"

__all__ = [
    "Activation",
    "BackendUnavailable",
    "Baselines",
    "Estimate",
    "FirststepError",
    "Interrupted",
    "InvalidParameter",
    "NotConverged",
    "NotEnoughMemory",
    "Prediction",
    "Problem",
    "ReadoutLaw",
    "Simulation",
    "WorkerFailed",
    "Workers",
    "__version__",
    "activation",
    "baselines",
    "predict",
    "readout_law",
    "simulate",
]
