"""What inference servers say of their requests on their page for Prometheus.

Sources: the documentation of each server's metrics, and the text format of Prometheus. Only counts are read.
"""

from math import isfinite
from typing import NamedTuple

from costguard.readers.host.page import PageError

Metric = tuple[bytes, bytes]
"""The name of a metric, and what must stand among its labels."""


PATHS = ("/metrics",)

NIM_PATH = "/v1/metrics"


class Family(NamedTuple):
    """One kind of server: ``prefix`` of its metrics, how many requests it has (``now``), and what grows with each (``ever``).

    ``always``: the first metric of ``now`` is on every page; with other servers it appears with the first request. ``words`` name its
    programs, or the modules that Python runs. ``ports`` are its usual ones, and ``options`` those that name another. ``paths``:
    where its page may be. ``refuses``: with one of these options it is not asked, because asking would count as use.
    """

    name: str
    prefix: bytes
    now: tuple[Metric, ...]
    ever: tuple[Metric, ...]
    always: bool
    words: tuple[str, ...]
    ports: tuple[int, ...]
    options: tuple[str, ...]
    paths: tuple[str, ...] = PATHS
    refuses: tuple[str, ...] = ()


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
    Family(  # its gauges stay at what its last step began with, and reading its /metrics empties that for others
        "TensorRT-LLM", b"trtllm_",
        (),
        ((b"trtllm_request_success_total", b""), (b"trtllm_request_error_total", b""), (b"trtllm_num_requests_completed_total", b"")),
        False, ("trtllm-serve",), (8000,), ("--port",), ("/prometheus/metrics",),
    ),
    Family(
        "LMDeploy", b"lmdeploy:",
        (),
        (
            (b"lmdeploy:e2e_request_latency_seconds_count", b""), (b"lmdeploy:prompt_tokens_total", b""),
            (b"lmdeploy:generation_tokens_total", b""),
        ),
        False, ("lmdeploy",), (23333,), ("--server-port",),
    ),
    Family(  # to be asked wakes one that sleeps when nobody asks
        "llama.cpp", b"llamacpp:",
        ((b"llamacpp:requests_processing", b""), (b"llamacpp:requests_deferred", b"")),
        ((b"llamacpp:prompt_tokens_total", b""), (b"llamacpp:tokens_predicted_total", b"")),
        True, ("llama-server",), (8080,), ("--port",), refuses=("--sleep-idle-seconds",),
    ),
    Family(
        "Dynamo", b"dynamo_frontend_",
        ((b"dynamo_frontend_inflight_requests", b""), (b"dynamo_frontend_queued_requests", b"")),
        ((b"dynamo_frontend_requests_total", b""),),
        False, ("dynamo.frontend",), (8000,), ("--http-port",),
    ),
    Family(
        "TEI", b"te_",
        (),
        ((b"te_request_count", b""), (b"te_request_success", b"")),
        False, ("text-embeddings-router",), (80, 3000, 8080, 9000), ("--port", "-p", "--prometheus-port"),
    ),
    Family(
        "NIM", b"num_requests_running",
        (),
        (
            (b"request_success_total", b""), (b"request_finish_total", b""), (b"prompt_tokens_total", b""),
            (b"generation_tokens_total", b""),
        ),
        False, ("nim_llm_sdk", "vllm_nvext"), (8000,), ("--port",), (NIM_PATH, *PATHS),
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
    names = {_name(arguments[0])} if arguments else set()
    if any(name.startswith("python") for name in names):
        names = _run_by_python(arguments[1:])
    family = next((family for family in FAMILIES if names & set(family.words)), None)
    options = {word.partition("=")[0] for word in arguments}
    return family if family and not options & set(family.refuses) else None


def _run_by_python(arguments: list[str]) -> set[str]:
    """The module, itself and its package, or the script among its arguments."""
    for position, word in enumerate(arguments):
        if word == "-m":
            module = arguments[position + 1] if position + 1 < len(arguments) else ""
            return {module, module.partition(".")[0]}
        valued = position > 0 and arguments[position - 1] in _WITH_VALUE
        if word == "-c" or not (word.startswith("-") or valued):
            return {_name(word)}
    return set()


def _name(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".py")


def ports_of(family: Family, arguments: list[str]) -> tuple[int, ...]:
    """The ports on which its page may be: those in its arguments, else the usual ones."""
    told = []
    for position, word in enumerate(arguments):
        option, _, value = word.partition("=")
        if option in family.options:
            value = value or (arguments[position + 1] if position + 1 < len(arguments) else "")
            if value.isascii() and value.isdigit():
                told.append(int(value))
    return tuple(told) or family.ports
