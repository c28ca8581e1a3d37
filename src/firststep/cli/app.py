"""The commands of ``firststep``, put together."""

from __future__ import annotations

from cyclopts import App

import firststep
from firststep.cli.advise import advise
from firststep.cli.attach import attach
from firststep.cli.baselines import baselines
from firststep.cli.compare import compare
from firststep.cli.demo import demo
from firststep.cli.diagnose import diagnose
from firststep.cli.explore import explore
from firststep.cli.features import features
from firststep.cli.inspect import inspect
from firststep.cli.models import models
from firststep.cli.optimize import optimize
from firststep.cli.predict import predict
from firststep.cli.reproduce import reproduce
from firststep.cli.simulate import simulate
from firststep.cli.spectrum import spectrum
from firststep.cli.sweep import sweep

app = attach(
    App(
        name="firststep",
        help="What one gradient step does to a two-layer network.",
        version=firststep.__version__,
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    ),
    {
        "simulate": simulate,
        "predict": predict,
        "optimize": optimize,
        "compare": compare,
        "baselines": baselines,
        "features": features,
        "inspect": inspect,
        "diagnose": diagnose,
        "advise": advise,
        "demo": demo,
        "models": models,
        "explore": explore,
        "spectrum": spectrum,
        "sweep": sweep,
        "reproduce": reproduce,
    },
)
