"""The explorer as a server: a real process, real requests, and what must not happen to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firststep.cli import run
from firststep.cli.explore import _own_address
from firststep.cli.qr_code import in_half_blocks, qr_code
from firststep.label_faults import LATER
from firststep.web.asked import LONGEST_TEXT
from firststep.web.pool import Pool, Refused
from firststep.web.server import SECONDS
from tests.processes import PATIENCE, alive, children, eventually, seconds_until_rest
from tests.web.serving import CURVE, NETWORKS, PROBLEM, explorer, wait_for_networks

HALF = b"\r\n".join(  # of a request
    (
        b"POST /api/curve HTTP/1.1",
        b"Host: 127.0.0.1",
        b"Content-Type: application/json",
        b"Content-Length: 500",
        b"",
        b"{",
    )
)
LONG = {**NETWORKS, "dimension": 600, "replicates": 100, "problem": {**PROBLEM, "alpha0": 20.0}}


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, int]]:
    with explorer(hurry=True) as (address, process):
        yield address, process.pid


@pytest.fixture(scope="module")
def client(served: tuple[str, int]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served[0], timeout=PATIENCE) as made:
        yield made


def test_the_page_and_its_files(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    for name in ("main.js", "charts/chart.js"):
        script = client.get(f"/static/{name}")
        assert script.headers["content-type"].startswith("text/javascript")
    guide = client.get("/guide").text
    for word in client.get("/api/about").json()["words"].values():
        assert f'id="{word["anchor"]}"' in guide


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/charts/../../server.py",
        "/static/charts",
        "/static/nothing.js",
        "/etc/passwd",
        "/api/replicate",
    ],
)
def test_nothing_else_is_served(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code in (404, 405)


def test_a_curve(client: httpx.Client) -> None:
    found = client.post("/api/curve", json=CURVE)
    assert found.status_code == 200
    assert len(found.json()["y"]) == 20


def test_faults_are_named(client: httpx.Client) -> None:
    answer = client.post(
        "/api/curve", json={**CURVE, "problem": {**PROBLEM, "student": "tahn", "alpha": -2}}
    )
    assert answer.status_code == 422
    errors = answer.json()["errors"]
    assert {error["parameter"] for error in errors} == {"student", "alpha"}
    assert "did you mean tanh?" in errors[0]["message"]


def test_what_is_no_request(client: httpx.Client) -> None:
    as_json = {"content-type": "application/json"}
    assert client.post("/api/curve", content=b"{", headers=as_json).status_code == 422
    assert client.post("/api/curve", content=b"[" * 60000, headers=as_json).status_code == 422
    assert (
        client.post("/api/curve", content=b"[" * 900 + b"]" * 900, headers=as_json).status_code
        == 422
    )
    for number in (b"NaN", b"-Infinity", b"1e999"):
        body = json.dumps(CURVE).encode().replace(b"0.25", number)
        assert client.post("/api/curve", content=body, headers=as_json).status_code == 422
    assert client.post("/api/curve", content=b" " * 100_000, headers=as_json).status_code == 413
    assert (
        client.post("/api/curve", content=json.dumps(CURVE)).status_code == 415
    )  # what a form of another site could send
    assert client.get("/", headers={"host": "evil.example"}).status_code == 421
    assert client.put("/api/curve", json=CURVE).status_code == 405


def test_half_a_request_waits_alone(served: tuple[str, int], client: httpx.Client) -> None:
    port = int(served[0].split(":")[2].strip("/"))
    with socket.create_connection(("127.0.0.1", port)) as half:
        half.sendall(HALF)
        assert client.post("/api/curve", json=CURVE).status_code == 200
        half.settimeout(PATIENCE)
        assert b" 408 " in half.recv(100)


def test_headers_that_never_end_are_hung_up_on(
    served: tuple[str, int], client: httpx.Client
) -> None:
    """Twenty at once, on fresh connections and on one that has asked before."""
    port = int(served[0].split(":")[2].strip("/"))
    begin = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    with contextlib.ExitStack() as open_ones:
        made = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        for each in made:
            open_ones.enter_context(each)
            each.settimeout(PATIENCE)
        made[0].sendall(begin + b"\r\n")
        answer = b""
        while b"</html>" not in answer:
            answer += made[0].recv(65536)
        for each in made[:-1]:
            each.sendall(begin)
        assert client.get("/").status_code == 200
        assert all(each.recv(100) == b"" for each in made)  # the last one never said a word


def test_a_fault_of_ours_is_told_to_whoever_runs_the_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def asked() -> Refused:
        pool = Pool(size=1, waiting=1, seconds=PATIENCE, memory=3 * 2**30)
        try:
            with pytest.raises(Refused) as caught:
                await pool.ask("no-such-call", {"problem": 1})
            return caught.value
        finally:
            await pool.close()

    refused = asyncio.run(asked())
    assert refused.status == 500
    assert "KeyError" in str(refused)
    assert "Traceback" not in str(refused)
    told = capsys.readouterr().err
    assert told.startswith('explorer: {"call": "no-such-call", "body": {"problem": 1}} failed')
    assert "Traceback" in told


# 158 characters that are slow: their band takes most of a minute.
SLOW_EXPRESSION = "+".join(f"tanh(9*(z-{place}/5))" for place in range(1, 10))


def test_an_expression_cannot_hold_a_worker() -> None:
    """The request ends at the limit, and whoever asks next is answered by a new worker."""

    async def asked() -> tuple[Refused, float]:
        pool = Pool(size=1, waiting=1, seconds=PATIENCE, memory=3 * 2**30)
        slow = {**CURVE, "problem": {**PROBLEM, "student": SLOW_EXPRESSION, "readout": "gaussian"}}
        try:
            await pool.ask("curve", CURVE)  # the worker has loaded
            pool._seconds = 1.0
            begun = time.perf_counter()
            with pytest.raises(Refused) as caught:
                await pool.ask("band", slow)
            taken = time.perf_counter() - begun
            pool._seconds = PATIENCE
            assert "y" in await pool.ask("curve", CURVE)
            return caught.value, taken
        finally:
            await pool.close()

    assert len(SLOW_EXPRESSION) <= LONGEST_TEXT
    assert SECONDS <= 15
    refused, taken = asyncio.run(asked())
    assert refused.status == 504
    assert taken < 5
    assert "takes longer than 1 s" in str(refused)


def stream(client: httpx.Client, body: Any) -> list[dict[str, Any]]:
    with client.stream("POST", "/api/simulate", json=body) as answer:
        return [json.loads(line) for line in answer.iter_lines()]


def test_networks_land_as_they_finish(client: httpx.Client) -> None:
    lines = stream(client, NETWORKS)
    kinds = [line["kind"] for line in lines if line["kind"] != "alive"]
    assert kinds == ["started", *["point"] * 6, "done"]
    last = [line for line in lines if line["kind"] == "point" and line["count"] == 3]
    assert sorted(line["index"] for line in last) == [0, 1]
    estimate = client.post("/api/estimate", json=NETWORKS).json()
    assert 0 < estimate["seconds"] < 60


def test_a_bad_simulation_is_refused(client: httpx.Client) -> None:
    answer = client.post("/api/simulate", json={**NETWORKS, "dimension": 10**7})
    assert answer.status_code == 422
    assert json.loads(answer.text)["errors"][0]["parameter"] == "dimension"


def test_leaving_frees_the_machine_at_once(client: httpx.Client, served: tuple[str, int]) -> None:
    with client.stream("POST", "/api/simulate", json=LONG) as answer:
        lines = answer.iter_lines()
        assert json.loads(next(lines))["kind"] == "started"
        wait_for_networks(served[1])
    assert seconds_until_rest(served[1]) < 6  # hundreds without it
    assert stream(client, NETWORKS)[-1]["kind"] == "done"  # and the next one runs


def seconds_of_curves(address: str, ridge: float) -> float:
    """The median over ten curves that have not been asked for before."""
    times = []
    for number in range(10):
        begin = time.perf_counter()
        body = {**CURVE, "problem": {**PROBLEM, "ridge": ridge + 0.001 * number}}
        answer = httpx.post(f"{address}api/curve", json=body, timeout=PATIENCE)
        assert answer.status_code == 200
        times.append(time.perf_counter() - begin)
    return sorted(times)[5]


def test_simulations_wait_for_each_other_and_the_page_stays_alive(
    client: httpx.Client, served: tuple[str, int]
) -> None:
    kinds: list[str] = []

    def second() -> None:
        with httpx.Client(base_url=served[0], timeout=PATIENCE) as other:
            kinds.extend(line["kind"] for line in stream(other, NETWORKS))

    with client.stream("POST", "/api/simulate", json=LONG) as answer:
        lines = (
            answer.iter_lines()
        )  # kept: when it is gone the connection is closed, and the simulation ends
        assert json.loads(next(lines))["kind"] == "started"
        waiting = threading.Thread(target=second)
        waiting.start()
        busy = seconds_of_curves(served[0], 0.011)
        assert eventually(lambda: "queued" in kinds or waiting.is_alive())
    waiting.join(PATIENCE)
    assert busy < max(2.0, 6 * seconds_of_curves(served[0], 0.022))
    assert "queued" not in kinds[kinds.index("started") :]
    assert kinds[-1] == "done"


def test_a_killed_worker_is_replaced(client: httpx.Client, served: tuple[str, int]) -> None:
    for pid in children(served[1]):
        os.kill(pid, signal.SIGKILL)
    answers = [
        client.post("/api/curve", json={**CURVE, "points": 21 + number}).status_code
        for number in range(6)
    ]
    assert set(answers) <= {200, 503}
    assert answers[-1] == 200


# Fuzzing ------------------------------------------------------------------------------------------

NUMBERS = st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False)
WORDS = [
    "tanh",
    "1/z",
    "exp(exp(z))",
    "sign(z)",
    "alpha",
    "ridge",
    "log",
    "signs",
    "1:0.5,2:0.5",
    "0:1",
    "inf",
    "z**99",
    "logit:2",
    "huber:1",
    "quantile:2",
    "mixture:1@1",
]
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=12), st.sampled_from(WORDS))
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
)
BODIES: dict[str, dict[str, Any]] = {
    "curve": CURVE,
    "point": {"problem": {**PROBLEM, **LATER, "labels": "sign", "noise": 0.0, "flip": 0.1}},
    "weights": {"problem": PROBLEM, "dimension": 80},
    "map": {
        "problem": PROBLEM,
        "rows": [0, 2],
        "quantity": "risk",
        "x": {"axis": "alpha", "from": 0.5, "to": 8.0, "scale": "log", "count": 4},
        "y": {"axis": "step", "from": 0.5, "to": 8.0, "scale": "log", "count": 4},
    },
    "estimate": NETWORKS,
    "take": {name: CURVE[name] for name in ("problem", "axis", "from", "to", "scale", "points")},
}


@st.composite
def requests(draw: Any) -> tuple[str, Any]:
    """A good request with some of its values replaced by anything, or anything at all."""
    call = draw(st.sampled_from(sorted(BODIES)))
    if draw(st.integers(0, 9)) == 0:
        return call, draw(ANYTHING)
    body = json.loads(json.dumps(BODIES[call]))
    for _ in range(draw(st.integers(1, 3))):
        inside = draw(
            st.sampled_from(
                [body, body["problem"] if isinstance(body.get("problem"), dict) else body]
            )
        )
        if inside:
            inside[draw(st.sampled_from(sorted(inside)))] = draw(ANYTHING | st.floats(1e-3, 1e3))
    return call, body


@settings(
    max_examples=250,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(asked=requests())
def test_no_request_makes_it_fail(client: httpx.Client, asked: tuple[str, Any]) -> None:
    call, body = asked
    answer = client.post(
        f"/api/{call}", content=json.dumps(body), headers={"content-type": "application/json"}
    )
    assert answer.status_code in (200, 413, 422, 504), (call, body, answer.text)
    told = answer.json()
    if answer.status_code != 200:
        assert all(error["message"] and "\n" not in error["message"] for error in told["errors"])


# The command --------------------------------------------------------------------------------------


def test_another_host_needs_the_token_and_ctrl_c_ends_everything() -> None:
    with explorer("--host", "0.0.0.0") as (address, process):
        assert "token=" in address
        address = address.replace("0.0.0.0", "127.0.0.1")
        base, query = address.split("/?")
        with httpx.Client(base_url=base, timeout=PATIENCE) as stranger:
            assert stranger.get("/").status_code == 401
            assert stranger.post("/api/curve", json=CURVE).status_code == 401
            assert stranger.get("/?token=wrong").status_code == 401
            bearer = {"authorization": "Bearer " + query.removeprefix("token=")}
            assert (
                stranger.post("/api/point", json={"problem": PROBLEM}, headers=bearer).status_code
                == 200
            )
        with httpx.Client(base_url=base, timeout=PATIENCE, follow_redirects=True) as guest:
            assert guest.get("/?" + query).status_code == 200
            assert guest.post("/api/curve", json=CURVE).status_code == 200
        with httpx.Client(timeout=PATIENCE) as lured:
            answer = lured.get(f"{base}//elsewhere.example/?{query}")
            assert answer.headers["location"] == "/elsewhere.example/"
        workers = children(process.pid)
        assert workers
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert "Traceback" not in out + err
    assert eventually(lambda: not any(alive(pid) for pid in workers))


def test_it_prints_the_address_for_others_with_a_code_to_photograph() -> None:
    with explorer("--host", "0.0.0.0") as (address, process):
        query = address.split("/?")[1]
        assert process.stdout is not None
        lines = [process.stdout.readline().rstrip("\n") for _ in range(2)]
        assert lines[0] == "Ctrl-C ends it"
        own = _own_address("0.0.0.0")
        port = address.split(":")[2].split("/")[0]
        if own is None:
            pytest.skip("this machine has no way out, and so no address for others")
        assert own not in ("0.0.0.0", "127.0.0.1")
        other = f"http://{own}:{port}/?{query}"
        assert lines[1] == f"for others: {other}"
        code = in_half_blocks(qr_code(other)).split("\n")
        assert [process.stdout.readline().rstrip("\n") for _ in code] == code
        guest = httpx.get(other, timeout=PATIENCE, follow_redirects=True)
        assert guest.status_code in (200, 401)  # httpx.get keeps no cookie of the redirect


COURSE = "https://course.example:8443"


def test_only_the_named_origin_may_show_it_in_a_frame() -> None:
    """With a token in the path, as the cookies of a page in another's frame are kept from it."""
    with explorer("--host", "0.0.0.0", "--embed", COURSE) as (address, process):
        assert process.stdout is not None
        lines = [process.stdout.readline().rstrip("\n") for _ in range(2)]
        token = address.split("token=")[1]
        shown = lines[1].removeprefix(f"in a frame on {COURSE}: ")
        assert shown.endswith(f"/~{token}/")
        base = address.split("/?")[0].replace("0.0.0.0", "127.0.0.1")
        with httpx.Client(base_url=f"{base}/~{token}/", timeout=PATIENCE) as framed:
            for path in ("", "static/main.js", "guide"):
                answer = framed.get(path)
                assert answer.status_code == 200
                policy = answer.headers["content-security-policy"]
                assert f"frame-ancestors {COURSE}" in policy
                assert policy.count("frame-ancestors") == 1
            assert framed.post("api/curve", json=CURVE).status_code == 200
        for path in ("/~wrong/", "/~wrong/static/main.js", f"/~{token}x/", f"/~{token[:-1]}/"):
            assert httpx.get(base + path, timeout=PATIENCE).status_code == 401
    with explorer("--embed", COURSE) as (address, _):
        policy = httpx.get(address, timeout=PATIENCE).headers["content-security-policy"]
        assert f"frame-ancestors {COURSE}" in policy


def test_clients_that_leave_and_ctrl_c_while_networks_are_simulated_say_nothing() -> None:
    """In the terminal."""
    with explorer() as (address, process):
        port = int(address.split(":")[2].strip("/"))
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port)) as half:
                half.sendall(HALF)
        as_json = {"content-type": "application/json"}
        assert (
            httpx.post(
                f"{address}api/point",
                content=b'{"x": "\\ud800"}',
                headers=as_json,
                timeout=PATIENCE,
            ).status_code
            == 422
        )
        wild = {**CURVE, "problem": {**PROBLEM, "student": "exp(3*z)"}}
        assert httpx.post(f"{address}api/curve", json=wild, timeout=PATIENCE).status_code in (
            200,
            422,
        )
        with httpx.stream("POST", f"{address}api/simulate", json=LONG, timeout=PATIENCE) as answer:
            lines = answer.iter_lines()
            assert json.loads(next(lines))["kind"] == "started"
            wait_for_networks(process.pid)
            workers = children(process.pid)
            process.send_signal(signal.SIGINT)
            list(lines)  # the stream ends properly
        err = process.communicate(timeout=PATIENCE)[1]
        assert process.returncode == 0
        assert not err
    assert eventually(lambda: not any(alive(pid) for pid in workers))


def test_a_problem_to_begin_with_and_kill_of_the_server_ends_the_workers() -> None:
    with explorer("--student", "relu", "--alpha", "3") as (address, process):
        assert "#" in address
        assert "student=relu" in address
        assert "alpha=3" in address
        base = address.split("#")[0]
        assert httpx.post(f"{base}api/curve", json=CURVE, timeout=PATIENCE).status_code == 200
        workers = children(process.pid)
        assert workers
        process.kill()
        assert eventually(lambda: not any(alive(pid) for pid in workers))


@pytest.fixture
def never_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """What should have been refused fails at once, instead of serving for ever."""

    def served(*_: object, **__: object) -> None:
        raise AssertionError("the explorer was started")

    monkeypatch.setattr(uvicorn.Server, "run", served)


@pytest.mark.usefixtures("never_serves")
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--port", "-1"], "port must be a whole number"),
        (["--port", "99999"], "port must be a whole number"),
        (["--host", "256.1.1.1"], "host must be an address of this machine"),
        (["--host", "1.2.3.4"], "host must be an address of this machine"),
        (["--ridge", "0"], "ridge must be"),
        (["--ridge", "0.1,1"], "ridge must be a number"),
        (["--step-exponent", "0.6"], "step-exponent must be from 0 to 0.5 at d = infinity"),
        (["--workers", "0"], "workers must be a whole number >= 1"),
        *(
            (["--embed", origin], "embed must be one origin")
            for origin in (
                *("*", "course.example", "https://course.example/page", "javascript:alert(1)"),
                *("https://a.example https://b.example", "https://a.example; script-src *"),
                *("https://user@a.example", "https://a.example:99999", "https://", "'none'"),
            )
        ),
        (["--student", "tahn"], "did you mean tanh?"),
        (["--export", "page.txt"], "export must be the name of an .html file"),
        (["--export", "/nowhere/page.html"], "export must be a file in a folder that exists"),
        (
            ["--labels", "sign", "--loss", "huber:1"],
            "loss must be square, logistic, hinge or squared-hinge with binary labels",
        ),
        (["--loss", "logistic"], "logistic is a loss of binary labels: try labels sign"),
        (["--flip", "0.1"], "flip must be 0 with labels real"),
        (["--labels", "sign", "--flip", "0.5"], "flip must be a number from 0 to below 0.5"),
        (["--labels", "sign", "--threshold", "200"], "threshold must be near or between -1"),
        (
            ["--labels", "sign", "--teacher", "z", "--threshold", "-1e3", "--noise", "0"],
            "threshold must be between",
        ),
    ],
)
def test_bad_flags(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explore", "--no-browser", *flags]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.usefixtures("never_serves")
def test_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert run(["explore", "--no-browser", "--port", str(taken.getsockname()[1])]) == 2
    assert "port must be one that can be listened on at 127.0.0.1" in capsys.readouterr().err
