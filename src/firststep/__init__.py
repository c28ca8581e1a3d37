"""firststep: what one gradient step does to a two-layer network, in theory and at finite size.

This is the only public door. Importing it loads neither matplotlib nor JAX nor scikit-learn.
"""

from typing import TYPE_CHECKING, Any

from firststep.activations import Activation, activation
from firststep.compare import Comparison, compare, compare_features
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
from firststep.inputs import DataInputs, InputLaw, SpectrumInputs, input_law
from firststep.layer_check import LayerCheck, check_layers
from firststep.predicting import predict
from firststep.problem import Problem
from firststep.readouts import ReadoutLaw, readout_law
from firststep.results import Baselines, Estimate, Interrupted, Simulation
from firststep.simulation.design import Training
from firststep.simulation.running.diagnosis import InputDiagnosis, diagnose_inputs
from firststep.simulation.running.given import simulate_features
from firststep.simulation.running.layer import FirstLayer, first_layer, training_path
from firststep.simulation.running.options import Run
from firststep.simulation.running.simulate import baselines, simulate
from firststep.simulation.running.workers import Workers
from firststep.spectrum import Spectrum, spectrum
from firststep.sweep.experiment import Experiment
from firststep.sweep.run import Sweep, run_sweep
from firststep.theory.closed_forms.bound import TauStar, tau_star, theorem_seven_bound
from firststep.theory.closed_forms.random_features import RandomFeaturesFit, random_features
from firststep.theory.closed_forms.small_step import (
    SmallStep,
    small_step,
    small_step_limit_alpha,
    small_step_limit_beta,
)
from firststep.theory.closed_forms.weights import WeightSpectrum, weight_spectrum
from firststep.theory.given_layer.predict import predict_features
from firststep.theory.given_layer.prediction import FeaturePrediction
from firststep.theory.one_step.optimum import Optimum, optimal
from firststep.theory.one_step.prediction import Prediction
from firststep.theory.spectrum.law import SpectralLaw, spectral_law
from firststep.trained.inspection import Inspection, inspect
from firststep.trained.tensors import read_tensor

if TYPE_CHECKING:
    from firststep.advice import Advice, advise
    from firststep.estimators import OneStepClassifier, OneStepFeatures, OneStepRegressor

__version__ = "0.6.0"

__all__ = [
    "Activation",
    "Advice",
    "BackendUnavailable",
    "Baselines",
    "Comparison",
    "DataInputs",
    "Estimate",
    "Experiment",
    "FeaturePrediction",
    "FirstLayer",
    "FirststepError",
    "InputDiagnosis",
    "InputLaw",
    "Inspection",
    "Interrupted",
    "InvalidParameter",
    "LayerCheck",
    "NotConverged",
    "NotEnoughMemory",
    "OneStepClassifier",
    "OneStepFeatures",
    "OneStepRegressor",
    "Optimum",
    "Prediction",
    "Problem",
    "RandomFeaturesFit",
    "ReadoutLaw",
    "Run",
    "Simulation",
    "SmallStep",
    "SpectralLaw",
    "Spectrum",
    "SpectrumInputs",
    "StoreDamaged",
    "StoreError",
    "Sweep",
    "TauStar",
    "Training",
    "WeightSpectrum",
    "WorkerFailed",
    "Workers",
    "__version__",
    "activation",
    "advise",
    "baselines",
    "check_layers",
    "compare",
    "compare_features",
    "diagnose_inputs",
    "first_layer",
    "input_law",
    "inspect",
    "optimal",
    "predict",
    "predict_features",
    "random_features",
    "read_tensor",
    "readout_law",
    "run_sweep",
    "simulate",
    "simulate_features",
    "small_step",
    "small_step_limit_alpha",
    "small_step_limit_beta",
    "spectral_law",
    "spectrum",
    "tau_star",
    "theorem_seven_bound",
    "training_path",
    "weight_spectrum",
]


def __getattr__(name: str) -> Any:
    """What needs scikit-learn, loaded when it is asked for."""
    if name in ("Advice", "advise"):
        import firststep.advice

        return getattr(firststep.advice, name)
    if name in ("OneStepClassifier", "OneStepFeatures", "OneStepRegressor"):
        import firststep.estimators

        return getattr(firststep.estimators, name)
    raise AttributeError(f"module 'firststep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
