"""firststep: what one gradient step does to a two-layer network, in theory and at finite size.

This is the only public door. Importing it loads neither matplotlib nor JAX.
"""

from firststep.activations import Activation, activation
from firststep.compare import Comparison, compare
from firststep.errors import (
    BackendUnavailable,
    FirststepError,
    InvalidParameter,
    NotConverged,
    NotEnoughMemory,
    StoreDamaged,
    StoreError,
    WorkerFailed,
)
from firststep.problem import Problem
from firststep.readouts import ReadoutLaw, readout_law
from firststep.results import Baselines, Estimate, Interrupted, Simulation
from firststep.simulation.run import baselines, simulate
from firststep.simulation.workers import Workers
from firststep.sweep.experiment import Experiment
from firststep.sweep.run import Sweep, run_sweep
from firststep.theory.closed_forms import (
    SmallStep,
    TauStar,
    WeightSpectrum,
    small_step,
    small_step_limit_alpha,
    small_step_limit_beta,
    tau_star,
    theorem_seven_bound,
    weight_spectrum,
)
from firststep.theory.optimum import Optimum, optimal
from firststep.theory.predict import predict
from firststep.theory.prediction import Prediction

__version__ = "0.4.0"

__all__ = [
    "Activation",
    "BackendUnavailable",
    "Baselines",
    "Comparison",
    "Estimate",
    "Experiment",
    "FirststepError",
    "Interrupted",
    "InvalidParameter",
    "NotConverged",
    "NotEnoughMemory",
    "Optimum",
    "Prediction",
    "Problem",
    "ReadoutLaw",
    "Simulation",
    "SmallStep",
    "StoreDamaged",
    "StoreError",
    "Sweep",
    "TauStar",
    "WeightSpectrum",
    "WorkerFailed",
    "Workers",
    "__version__",
    "activation",
    "baselines",
    "compare",
    "optimal",
    "predict",
    "readout_law",
    "run_sweep",
    "simulate",
    "small_step",
    "small_step_limit_alpha",
    "small_step_limit_beta",
    "tau_star",
    "theorem_seven_bound",
    "weight_spectrum",
]
