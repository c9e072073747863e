"""What inference servers say of their requests on their page for Prometheus.

Sources: the documentation of each server's metrics, and the text format of Prometheus. Only counts are read.
"""

from math import isfinite
from typing import NamedTuple

from costguard.readers.host.page import PageError

Metric = tuple[bytes, bytes]
"""The name of a metric, and what must stand among its labels."""


class Family(NamedTuple):
    """One kind of server: ``prefix`` of its metrics, how many requests it has (``now``), and how many it has had (``ever``).

    ``always``: the first metric of ``now`` stands on every page; of others it comes with the first request. ``words`` name its
    programs. ``ports`` are its usual ones, and ``options`` those that name another.
    """

    name: str
    prefix: bytes
    now: tuple[Metric, ...]
    ever: tuple[Metric, ...]
    always: bool
    words: tuple[str, ...]
    ports: tuple[int, ...]
    options: tuple[str, ...]


class RequestCounts(NamedTuple):
    """How many requests a page shows: running or waiting, and ended since the server began."""

    family: str
    now: float
    ever: float


FAMILIES = (
    Family(
        "vLLM", b"vllm:",
        ((b"vllm:num_requests_running", b""), (b"vllm:num_requests_waiting", b""), (b"vllm:num_requests_swapped", b"")),
        ((b"vllm:request_success_total", b""),),
        True, ("vllm",), (8000,), ("--port",),
    ),
    Family(
        "SGLang", b"sglang:",
        ((b"sglang:num_running_reqs", b""), (b"sglang:num_queue_reqs", b"")),
        ((b"sglang:num_requests_total", b""),),
        True, ("sglang",), (30000,), ("--port",),
    ),
    Family(
        "Triton", b"nv_inference_",
        (
            (b"nv_inference_pending_request_count", b""),
            (b"nv_trt_llm_request_metrics", b'request_type="active"'),
            (b"nv_trt_llm_request_metrics", b'request_type="waiting"'),
        ),
        ((b"nv_inference_request_success", b""), (b"nv_inference_request_failure", b"")),
        False, ("tritonserver",), (8002,), ("--metrics-port",),
    ),
    Family(
        "TGI", b"tgi_",
        ((b"tgi_queue_size", b""), (b"tgi_batch_current_size", b"")),
        ((b"tgi_request_count", b""),),
        False, ("text-generation-launcher", "text-generation-router", "text-generation-router-llamacpp", "text_generation_launcher"), (80, 3000, 8080, 9000),
        ("--port", "-p", "--prometheus-port"),
    ),
)  # fmt: skip

_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")
"""Options of Python that take the argument after them."""

_NO_SERVER = "has a page that is not a known inference server's"

_SAMPLES = 1024
"""The most samples of one metric."""


def requests(page: bytes) -> RequestCounts:
    """The requests on a page. Raises PageError for the page of something else."""
    page = b"\n" + page
    partial = ""
    for family in FAMILIES:
        if not any(page.find(begin + family.prefix) >= 0 for begin in (b"\n", b"\n# TYPE ", b"\n# HELP ")):
            continue
        values = [_sum(page, metric) for metric in family.now]
        if family.always and values[0] is None:  # a part of another server, which may count them: vLLM in Triton
            partial = partial or family.name
            continue
        ever = sum(_sum(page, metric) or 0.0 for metric in family.ever)
        return RequestCounts(family.name, sum(value or 0.0 for value in values), ever)
    raise PageError(f"shows no requests on its {partial} page" if partial else _NO_SERVER)


def _sum(page: bytes, metric: Metric) -> float | None:
    """The sum over all samples; None without one. Raises PageError for what is no count."""
    name, label = metric
    total, at, found = 0.0, page.find(b"\n" + name), False
    for _ in range(_SAMPLES):
        if at < 0:
            return total if found else None
        start, end = at + 1 + len(name), page.find(b"\n", at + 1)
        rest = page[start : end if end >= 0 else len(page)]
        at = page.find(b"\n" + name, start)
        if rest[:1] not in (b"{", b" ", b"\t"):  # a longer name
            continue
        labels, _, numbers = rest.rpartition(b"}")
        if label not in labels:
            continue
        total, found = total + _count(numbers), True
    raise PageError("has a page with too many lines")


def _count(numbers: bytes) -> float:
    """The value of one sample. Raises PageError for what is no count."""
    try:
        value = float(numbers.split()[0])
    except (ValueError, IndexError):
        raise PageError("shows no count of requests") from None
    if not isfinite(value) or value < 0.0:
        raise PageError("shows no count of requests")
    return value


def family_of(arguments: list[str]) -> Family | None:
    """The kind of server that a process is by its arguments: the program itself, or the module or script that Python runs."""
    program = _name(arguments[0]) if arguments else ""
    if program.startswith("python"):
        program = _name(_run_by_python(arguments[1:]))
    return next((family for family in FAMILIES if program in family.words), None)


def _run_by_python(arguments: list[str]) -> str:
    """The module or the script among its arguments."""
    for position, word in enumerate(arguments):
        if word == "-m":
            return (arguments[position + 1] if position + 1 < len(arguments) else "").partition(".")[0]
        valued = position > 0 and arguments[position - 1] in _WITH_VALUE
        if word == "-c" or not (word.startswith("-") or valued):
            return word
    return ""


def _name(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".py")


def ports_of(family: Family, arguments: list[str]) -> tuple[int, ...]:
    """The ports on which its page may be: those that it is told, else its usual ones."""
    told = []
    for position, word in enumerate(arguments):
        option, _, value = word.partition("=")
        if option in family.options:
            value = value or (arguments[position + 1] if position + 1 < len(arguments) else "")
            if value.isascii() and value.isdigit():
                told.append(int(value))
    return tuple(told) or family.ports
