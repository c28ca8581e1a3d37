"""How often ``advise`` is right: the tables of docs/validation.md, "Advice on a table".

python -m tests.scripts.advice_tables gains       coverage of the intervals of gains, drawn data
python -m tests.scripts.advice_tables curves      predicted and realised risk at 2 and 4 times the
                                                  rows: drawn data, and data sets by hiding rows
python -m tests.scripts.advice_tables verdicts    answers and causes over seeds

Each takes some minutes on one core. ``--seeds 5`` makes it shorter, ``--dump FILE`` keeps what the
table is made of. Seeds below 100 were for choosing the errors of the equations.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets

from firststep.advice import advise
from firststep.advice.direction import find_direction
from firststep.advice.learning_curve import MULTIPLES, anchored, change_of, predicted_risks
from firststep.advice.measured import GAINS, LINEAR, MODELS, ONE_STEP, measure, regressor
from firststep.advice.ridge import LinearFit

Array = np.ndarray[Any, Any]
Sample = tuple[Array, Array]
WIDTH = 256
TEST = 8000  # rows of drawn data on which risks are realised


def teacher(d: int, function: Callable[[Array], Array], noise: float = 0.2) -> Any:
    """y = function(<x, theta>) + noise, x ~ N(0, I)."""

    def make(rng: np.random.Generator, n: int) -> Sample:
        x = rng.standard_normal((n, d))
        theta = rng.standard_normal(d)
        return x, function(x @ theta / np.linalg.norm(theta)) + noise * rng.standard_normal(n)

    return make


def friedman(rng: np.random.Generator, n: int) -> Sample:
    return datasets.make_friedman1(n, noise=1.0, random_state=int(rng.integers(2**31)))  # type: ignore[no-any-return]


DRAWN: dict[str, tuple[int, Callable[[np.random.Generator, int], Sample]]] = {
    "one tanh, 200 x 30": (200, teacher(30, lambda z: np.tanh(3 * z))),
    "one tanh, 800 x 50": (800, teacher(50, lambda z: np.tanh(3 * z))),
    "one relu, 400 x 30": (400, teacher(30, lambda z: np.maximum(z, 0), 0.3)),
    "linear, 200 x 30": (200, teacher(30, lambda z: z, 0.5)),
    "even, 400 x 20": (400, teacher(20, lambda z: z**2 - 1)),
    "friedman 1, 300 x 10": (300, friedman),
    "noise, 200 x 10": (200, teacher(10, lambda z: 0 * z, 1.0)),
}
HIDDEN: dict[str, Callable[..., Any]] = {
    "diabetes": datasets.load_diabetes,
    "breast cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "wine": datasets.load_wine,
}


def risk(name: str, train: Sample, test: Sample, seed: int) -> float:
    """Of one fit, on rows it did not see."""
    made = LinearFit() if name == LINEAR else regressor(name, width=WIDTH, seed=seed)
    return float(np.mean((test[1] - made.fit(*train).predict(test[0])) ** 2))


def realised(name: str, train: Sample, test: Sample, seed: int) -> float:
    """The mean risk of fits with three draws of the weights."""
    return float(np.mean([risk(name, train, test, 1000 + 10 * seed + k) for k in range(3)]))


def share(hits: list[bool]) -> str:
    return f"{100 * np.mean(hits):.0f} %"


# Gains --------------------------------------------------------------------------------------------

ASKED = ("one step over no step", "three steps over no step", "one step over linear")


def gains(seeds: range, dump: list[Any]) -> None:
    print(
        "| data | gain | true, mean ± sd of fits | holds the mean | holds its own fit | says > 0 |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for data, (n, make) in DRAWN.items():
        intervals, realised = defaultdict(list), defaultdict(list)
        for seed in seeds:
            rng = np.random.default_rng(seed)
            x, y = make(rng, n + TEST)
            train, test = (x[:n], y[:n]), (x[n:], y[n:])
            found = measure(*train, width=WIDTH, seed=seed)
            risks = {
                name: risk(name, train, test, 1000 + seed) / test[1].var()
                for name in (LINEAR, *MODELS)
            }
            for words in ASKED:
                worse, better = GAINS[words]
                intervals[words].append(found.gains[words].scaled(1 / test[1].var()))
                realised[words].append(risks[worse] - risks[better])
        for words in ASKED:
            true, told = np.array(realised[words]), intervals[words]
            dump.append((data, words, true.tolist(), [each.to_dict() for each in told]))
            mean = float(true.mean())
            own = [value in each for value, each in zip(true, told, strict=True)]
            row = [
                data,
                words,
                f"{mean:+.3f} ± {true.std(ddof=1):.3f}",
                share([mean in each for each in told]),
                share(own),
                share([each.is_positive for each in told]),
            ]
            print(f"| {' | '.join(row)} |", flush=True)


# Learning curves ----------------------------------------------------------------------------------


def pools(seeds: range) -> Iterator[tuple[str, int, int, Sample, Sample]]:
    """Name, seed, rows that are shown; a pool of four times as many, and a test set."""
    for data, (n, make) in DRAWN.items():
        for seed in seeds:
            x, y = make(np.random.default_rng(seed), 4 * n + TEST)
            yield data, seed, n, (x[: 4 * n], y[: 4 * n]), (x[4 * n :], y[4 * n :])
    for data, load in HIDDEN.items():
        x, y = load(return_X_y=True)
        for seed in seeds:
            order = np.random.default_rng(seed).permutation(len(y))
            n = int(0.7 * len(y)) // 4
            held, pool = order[4 * n :], order[: 4 * n]
            yield data, seed, n, (x[pool], y[pool] * 1.0), (x[held], y[held] * 1.0)


def curves(seeds: range, dump: list[Any]) -> None:
    head = "change predicted | realised | rms of the two | holds the change | holds the risk"
    print(f"| data | fit | rows | times | {head} |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    rows: dict[tuple[Any, ...], list[tuple[float, float, bool, bool]]] = defaultdict(list)
    for data, seed, n, (x, y), test in pools(seeds):
        found = measure(x[:n], y[:n], width=WIDTH, seed=seed)
        deviation = x[:n].std(axis=0)
        scaled = (x[:n] - x[:n].mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        labels = (y[:n] - y[:n].mean()) / y[:n].std()
        direction = find_direction(scaled, labels, width=WIDTH, seed=seed)
        step = float(np.median(found.steps_chosen[ONE_STEP]))
        told, _ = predicted_risks(scaled, labels, direction, step=step, width=WIDTH, seed=seed)
        for name, predicted in told.items():
            now = realised(name, (x[:n], y[:n]), test, seed)
            for times in (2, 4):
                more = realised(name, (x[: times * n], y[: times * n]), test, seed)
                ratio = float(predicted[MULTIPLES.index(times)] / predicted[MULTIPLES.index(1.0)])
                change = change_of(name, ratio, n)
                held = more / now in change, more in anchored(found.risks[name], change)
                rows[data, name, n, times].append((ratio, more / now, *held))
    hits: dict[tuple[str, int], list[tuple[bool, bool]]] = defaultdict(list)
    for (data, name, n, times), every in rows.items():
        dump.append((data, name, n, times, every))
        ratios, true = np.array([each[:2] for each in every]).T
        hits[name, times] += [each[2:] for each in every]
        rms = float(np.sqrt(np.mean((ratios - true) ** 2)))
        shares = " | ".join(share([each[k] for each in every]) for k in (2, 3))
        means = f"{ratios.mean():.3f} | {true.mean():.3f} | {rms:.3f}"
        print(f"| {data} | {name} | {n} | {times} | {means} | {shares} |", flush=True)
    for (name, times), held in hits.items():
        shares = " | ".join(share([each[k] for each in held]) for k in (0, 1))
        print(f"| all | {name} | | {times} | | | | {shares} |")


# Verdicts -----------------------------------------------------------------------------------------

ASKED_OF: dict[str, tuple[int, Callable[[np.random.Generator, int], Sample]]] = {
    "noise, 300 x 20": (300, teacher(20, lambda z: 0 * z, 1.0)),
    "noise, 60 x 100": (60, teacher(100, lambda z: 0 * z, 1.0)),
    "one tanh, 600 x 40": (600, teacher(40, lambda z: np.tanh(3 * z))),
    "one tanh, 40 x 50": (40, teacher(50, lambda z: np.tanh(3 * z))),
    "linear, 300 x 20": (300, teacher(20, lambda z: z, 0.5)),
    "even, 400 x 50": (400, teacher(50, lambda z: z**2 - 1)),
    "friedman 1, 300 x 10": (300, friedman),
}


def verdicts(seeds: range, dump: list[Any]) -> None:
    print("| data | yes | causes where it says no, by how often |")
    print("| --- | --- | --- |")
    for data, (n, make) in ASKED_OF.items():
        answers, causes = [], Counter[str]()
        for seed in seeds:
            found = advise(*make(np.random.default_rng(seed), n), seed=seed)
            answers.append(found.answer == "yes")
            causes.update(found.causes)
        dump.append((data, answers, dict(causes)))
        told = ", ".join(f"{name} {count}" for name, count in causes.most_common())
        print(f"| {data} | {sum(answers)} of {len(seeds)} | {told} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=("gains", "curves", "verdicts"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=100, help="the first seed")
    parser.add_argument("--only", default="", help="data whose names have this in them")
    parser.add_argument("--dump", type=Path)
    given = parser.parse_args()
    for table in (DRAWN, HIDDEN, ASKED_OF):
        for data in [each for each in table if given.only not in each]:
            del table[data]  # type: ignore[attr-defined]
    dump: list[Any] = []
    seeds = range(given.first, given.first + given.seeds)
    {"gains": gains, "curves": curves, "verdicts": verdicts}[given.table](seeds, dump)
    if given.dump is not None:
        given.dump.write_text(json.dumps(dump))


if __name__ == "__main__":
    main()
