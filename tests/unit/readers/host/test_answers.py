"""Whatever a server sends, whatever a user names his programs: an answer, or one kind of error."""

import json
from contextlib import suppress

from hypothesis import example, given
from hypothesis import strategies as some

from costguard.answers import AnswerError, parse
from costguard.readers.host.inference import family_of, ports_of, requests
from costguard.readers.host.kernel_server import QUIET, listed_in
from costguard.readers.host.kernels import connection_file
from costguard.readers.host.page import Fetched, PageError
from costguard.readers.host.serving import parts

HEADS = some.sampled_from([
    b"", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
])  # fmt: skip
NAMES = some.sampled_from(
    [
        b"",
        b"vllm:num_requests_running",
        b"sglang:num_running_reqs ",
        b"nv_inference_request_success{",
        b"tgi_queue_size ",
    ]
)
ANYTHING = some.recursive(
    some.none() | some.booleans() | some.floats() | some.text(max_size=5) | some.sampled_from(["id", "name", "busy", "idle"]),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from(["id", "name", "execution_state"]), inner),
    max_leaves=12,
)  # fmt: skip


@given(HEADS, some.binary(max_size=60), some.booleans())
def test_bytes_are_an_answer_or_none(head: bytes, rest: bytes, closed: bool) -> None:
    """Once the connection has ended there is an answer or an error; before that it may be incomplete."""
    with suppress(AnswerError):
        found = parse(head + rest, closed=closed, limit=1000)
        assert found is not None or not closed
        assert found is None or len(found.body) <= 1000


@given(some.lists(some.tuples(NAMES, some.binary(max_size=20)), max_size=5))
def test_a_page_shows_counts_or_is_none(lines: list[tuple[bytes, bytes]]) -> None:
    """Counts are numbers from zero on."""
    with suppress(PageError):
        found = requests(b"\n".join(name + rest for name, rest in lines))
        assert 0.0 <= found.now < float("inf")
        assert found.ever >= 0.0


@given(ANYTHING)
@example([{"id": "1", "name": "a", "execution_state": "busy"}])
def test_a_list_of_kernels_is_one_or_is_none(value: object) -> None:
    """Busy only where it says so, quiet only where every state is known."""
    with suppress(PageError):
        found = listed_in(Fetched(200, json.dumps(value).encode(), 1.0))
        assert isinstance(value, list)
        states = [str(model["execution_state"]) for model in value]
        assert bool(found.busy) is ("busy" in states)
        assert set(states) <= {"busy", *QUIET}


@given(some.binary(max_size=80))
def test_bytes_are_no_list_of_kernels(body: bytes) -> None:
    """Most are none; none ends the sense."""
    with suppress(PageError):
        assert listed_in(Fetched(200, body, 1.0)).busy == set()


@given(
    some.lists(
        some.sampled_from(["vllm", "python3", "-m", "--port", "--port=", "x", "8000", "-c", "/a/vllm.py"])
        | some.text(max_size=4)
    )
)
def test_any_arguments_are_judged(words: list[str]) -> None:
    """Without an error, and with ports that are some."""
    family = family_of(words)
    if family is not None:
        assert ports_of(family, words)
    assert connection_file([word.encode(errors="surrogatepass") for word in words]) is None


@given(some.text(max_size=30) | some.builds("http://{}".format, some.text(max_size=20)))
def test_an_address_is_one_of_this_machine_or_is_refused(url: str) -> None:
    """With one kind of error."""
    with suppress(ValueError):
        address, port, path = parts(url)
        assert 0 < port < 1 << 16
        assert path.startswith("/")
        assert address == "::1" or address.startswith("127.")
