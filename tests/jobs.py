"""What tests give worker processes to do.

A worker imports the module of its job: this one, unlike a file of tests, loads nothing.
"""

from __future__ import annotations

import os
import signal

from firststep.errors import InvalidParameter


def square(number: int) -> int:
    return number * number


def die_at_three(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return square(number)


def misbehave(number: int) -> int:
    if number == 5:
        raise InvalidParameter("number", "anything but 5", number)
    print("noise on stdout does not disturb the answers")
    return die_at_three(number)
