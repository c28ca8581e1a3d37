"""What the page calls things, and one sentence on each. The page and its guide are built from these tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

NAMED_ACTIVATIONS = (
    "tanh",
    "erf",
    "relu",
    "sin",
    "softplus",
    "gelu",
    "sigmoid",
    "silu",
    "abs",
    "identity",
    "hermite2",
    "hermite3",
    "centered(relu)",
    "tanh(2*z) + 0.5*(z**2-1)",
)
READOUTS = ("ones", "signs", "gaussian", "1:0.5,3:0.5")


@dataclass(frozen=True)
class Field:
    """A control of the page, for a field of a problem."""

    name: str
    label: str
    symbol: str
    explanation: str
    kind: str = "number"
    low: float | None = None
    high: float | None = None
    scale: str = "log"
    zero: bool = False  # 0 is allowed besides the range of the slider
    optional: bool = False
    options: tuple[Any, ...] = ()

    def about(self) -> dict[str, Any]:
        return {**self.__dict__, "options": list(self.options), "anchor": self.name}


FIELDS = (
    Field(
        "student",
        "student",
        "σ",
        "The activation of the network: a name, or an expression in z.",
        "activation",
        options=NAMED_ACTIVATIONS,
    ),
    Field(
        "teacher",
        "teacher",
        "σ*",
        "The labels are this function of one direction of the input, plus noise.",
        "activation",
        options=NAMED_ACTIVATIONS,
    ),
    Field(
        "alpha",
        "samples of the fit",
        "α = n/d",
        "Fresh samples per dimension on which the readout is fitted after the step.",
        low=0.1,
        high=100,
    ),
    Field("beta", "width", "β = N/d", "Neurons per dimension.", low=0.1, high=10),
    Field(
        "alpha0",
        "samples of the step",
        "α₀ = n₀/d",
        "Samples per dimension that the gradient step sees; 0 means no step.",
        low=0.1,
        high=100,
        zero=True,
        optional=True,
    ),
    Field(
        "step",
        "step size",
        "η̃",
        "The step is η = η̃ N^exponent; 0 means no step.",
        low=0.01,
        high=30,
        zero=True,
    ),
    Field(
        "step_exponent",
        "step exponent",
        "η = η̃ N^e",
        "0.5 is the large step, which learns a direction; 0 is the small step, "
        "which only tilts the kernel. Others need a finite d.",
        "choice",
        low=0,
        high=1,
        scale="linear",
        options=(0.5, 0),
    ),
    Field(
        "ridge", "ridge", "λ", "The penalty on the readout in the final fit.", low=1e-6, high=100
    ),
    Field(
        "noise",
        "label noise",
        "σ_ε",
        "Standard deviation of the noise that is added to the labels.",
        low=0,
        high=2,
        scale="linear",
    ),
    Field(
        "readout",
        "readout law",
        "a",
        "How the readout is drawn before the step: ones, signs, gaussian, or value:weight,...",
        "readout",
        options=READOUTS,
    ),
    Field(
        "init",
        "first layer",
        "W₀",
        "Rows of the first layer: Gaussian, or scaled to norm 1 (sphere).",
        "choice",
        options=("gaussian", "sphere"),
    ),
    Field(
        "dimension",
        "dimension of the theory",
        "d",
        "The limit d = ∞, or a finite dimension with its corrections of order 1/d.",
        "dimension",
        low=50,
        high=100000,
    ),
)


class Line(NamedTuple):
    name: str
    label: str
    explanation: str
    color: str
    dash: str
    on: bool
    quantities: tuple[str, ...]


LINES = (
    Line(
        "exact",
        "one step, exact theory",
        "The exact asymptotics of the true network after its step.",
        "blue",
        "",
        True,
        ("risk", "training_error", "alignment", "gain"),
    ),
    Line(
        "isotropic",
        "one step, isotropic bulk",
        "The published theory, which replaces the trained weights apart from their spike by isotropic ones.",
        "orange",
        "7 4",
        False,
        ("risk", "training_error", "alignment", "gain"),
    ),
    Line(
        "random-features",
        "no step (random features)",
        "The same network and fit without the gradient step.",
        "grey",
        "2 4",
        True,
        ("risk", "training_error"),
    ),
    Line(
        "kernel-bound",
        "kernel lower bound",
        "What no fixed kernel, random-features or linear model can beat, however many samples.",
        "black",
        "8 3 2 3",
        True,
        ("risk",),
    ),
    Line(
        "optimal-ridge",
        "one step, best ridge",
        "The exact theory at the ridge that is best for every point of the curve.",
        "green",
        "1 0",
        False,
        ("risk", "training_error", "alignment", "gain"),
    ),
)

QUANTITIES = {
    "risk": ("test risk", "Mean squared error on fresh inputs, against the noise-free teacher."),
    "training_error": (
        "training error",
        "Mean squared residual on the samples of the fit, noise included.",
    ),
    "alignment": (
        "alignment",
        "The cosine between the direction that the step learned and the teacher's.",
    ),
    "gain": ("gain over no step", "The test risk without the step less the test risk with it."),
}
MAP_QUANTITIES = {
    "risk": ("test risk", QUANTITIES["risk"][1]),
    "gain": ("gain over no step", QUANTITIES["gain"][1]),
    "ratio": ("risk / kernel lower bound", "Below 1 the network beats every fixed kernel."),
}


@dataclass(frozen=True)
class Word:
    label: str
    explanation: str
    more: str = ""  # for the guide


WORDS = {
    "learned_function": Word(
        "learned function",
        "What the network predicts on average at a place κ along the direction of the step, and what it should.",
        "m(κ) = E[f(x) | κ] with κ the component of x along the step; the target is E[y | κ], the teacher blurred by what the step "
        "missed of its direction. Without a step κ is the component along the teacher.",
    ),
    "kappa": Word(
        "κ",
        "The component of an input along the direction of the gradient step: a standard Gaussian.",
    ),
    "weights": Word(
        "weights after the step",
        "Singular values of the first layer of one simulated network: a bulk, and a spike that the step adds.",
        "Computed from one network of the dimension shown; edges and outlier are predicted for this dimension by the exact theory "
        "of the spectrum.",
    ),
    "edge": Word("edge", "Where the bulk of the singular values should end."),
    "outlier": Word(
        "outlier",
        "Where theory puts the singular value of the spike; none if the spike is lost in the bulk.",
    ),
    "split": Word(
        "where the error comes from",
        "The power of the teacher, split into what is learned and the parts of the test risk.",
        "Along the step: the network's mean is not E[y | κ]. Across the step: the linear part of what is left of the teacher. Out "
        "of reach: the rest of the teacher across the step. Scatter of the fit: finite samples, label noise and random features.",
    ),
    "simulate": Word(
        "real networks",
        "Draws networks of a finite dimension, trains and tests them, and puts them on the curve.",
    ),
    "map": Word(
        "phase diagram", "The risk or the gain over two parameters at once; click to go there."
    ),
    "take": Word(
        "take it away", "The same question as Python, as a command line or as an experiment file."
    ),
    "preset": Word("presets", "Settings of the papers' figures, and of phenomena worth seeing."),
    "random_features_risk": Word(
        "risk without the step", "The test risk of the same network when it takes no step."
    ),
    "kernel_lower_bound": Word(
        "kernel lower bound",
        LINES[3].explanation,
        "The part of the teacher that is not linear: E[σ*²] less the "
        "squares of its mean and of its linear coefficient ([Ba] Proposition 1).",
    ),
    "spike_strength": Word(
        "spike strength",
        "How far the step moves a neuron of readout 1 along the direction of the step.",
    ),
    "bulk_variance": Word(
        "bulk variance",
        "The mean squared norm of a neuron apart from its spike; 1 before the step.",
    ),
    "gradient_norm": Word(
        "gradient norm",
        "The length of the mean gradient direction v, whose direction the spike has.",
    ),
    "degrees_of_freedom": Word(
        "degrees of freedom / samples",
        "Trace of the hat matrix of the ridge fit over the number of samples.",
    ),
    "quadrature_error": Word(
        "numerical error", "An estimate of the numerical error of the predicted risk."
    ),
}


SPLIT_WORDS = {
    "learned": ("learned", "The power of the teacher that the network has made its own."),
    "along": (
        "missed along the step",
        "The network's mean is not E[y | κ]: shrunk, or unable to bend like it.",
    ),
    "across": (
        "missed across the step",
        "The linear part of the teacher across the step that is not learned.",
    ),
    "out_of_reach": (
        "out of reach",
        "The part of the teacher across the step that no fit can have.",
    ),
    "fluctuation": ("scatter of the fit", "Finite samples, label noise and random features."),
}


def about_words() -> dict[str, Any]:
    """All words by name, with their place in the guide."""
    return {
        name: {"label": word.label, "explanation": word.explanation, "anchor": name}
        for name, word in WORDS.items()
    }


def guide_sections() -> list[tuple[str, str, str, str]]:
    """Anchor, title, sentence and more, in the order of the guide."""
    sections = [(f.name, f"{f.label} {f.symbol}", f.explanation, "") for f in FIELDS]
    sections += [(name, label, sentence, "") for name, (label, sentence) in QUANTITIES.items()]
    sections += [(line.name, line.label, line.explanation, "") for line in LINES]
    sections += [(name, word.label, word.explanation, word.more) for name, word in WORDS.items()]
    return sections
