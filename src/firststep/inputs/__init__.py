"""Laws of the inputs: what the rows of data are drawn from. A description; the simulator draws.

One class a law, registered in ``LAWS`` with its text, bounds, arrays and rows: ``laws`` has those
that are maps of Gaussian numbers, ``structured`` those with a spectrum, ``data`` the rows of a
table; ``overlaps`` is where in a spectrum the teacher lies.
"""

from firststep.inputs.data import DataInputs
from firststep.inputs.law import LAWS, Held, InputLaw
from firststep.inputs.laws import GAUSSIAN, CovarianceInputs, checked_covariance
from firststep.inputs.overlaps import TeacherOverlaps, overlaps_of_file, teacher_overlaps
from firststep.inputs.structured import SpectrumInputs, StructuredInputs
from firststep.inputs.texts import allowed, input_law

__all__ = [
    "GAUSSIAN",
    "LAWS",
    "CovarianceInputs",
    "DataInputs",
    "Held",
    "InputLaw",
    "SpectrumInputs",
    "StructuredInputs",
    "TeacherOverlaps",
    "allowed",
    "checked_covariance",
    "input_law",
    "overlaps_of_file",
    "teacher_overlaps",
]
