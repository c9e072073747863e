"""Inference servers: real pages over real sockets, shaped as each server's documentation shows them; virtual time."""

import contextlib
import math
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from costguard.readers.host import serving
from costguard.readers.host.inference import FAMILIES, family_of, ports_of, requests
from costguard.readers.host.page import PageError
from costguard.readers.host.processes import Processes
from costguard.readers.host.sense import Moment, SensePaths, Sight
from costguard.readers.host.serving import LIST_RARELY_SECONDS, SERVERS_OF_A_USER, USUAL_PORTS, Serving, parts
from tests.unit.readers.host.rightless import closed
from tests.unit.readers.host.servers import WITHIN, Script, Server, answered, page, raw, settle, silence
from tests.unit.readers.host.tree import look_as_reader

STEP, HOUR = 10.0, 3600.0
LOOK_SECONDS = 2.0


def vllm(running: object = 0.0, waiting: object = 0.0, ended: object = 7.0) -> bytes:
    return f"""# HELP python_gc_objects_collected_total Objects collected during gc
# TYPE python_gc_objects_collected_total counter
python_gc_objects_collected_total{{generation="0"}} 11289.0
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="meta/Llama {{3}}"}} {running}
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="meta/Llama {{3}}"}} {waiting}
vllm:num_requests_waiting_by_reason{{engine="0",reason="capacity"}} 99.0
# HELP vllm:request_success_total Count of successfully processed requests.
# TYPE vllm:request_success_total counter
vllm:request_success_total{{engine="0",finished_reason="stop",model_name="m"}} {ended}
vllm:request_success_total{{engine="0",finished_reason="length",model_name="m"}} 3.0
vllm:request_success_created{{engine="0",finished_reason="stop",model_name="m"}} 1.76e+09
vllm:e2e_request_latency_seconds_bucket{{engine="0",le="0.3",model_name="m"}} 5.0
""".encode()


def sglang(running: float = 0.0, waiting: float = 0.0, ended: float = 9.0) -> bytes:
    return f"""# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{{model_name="m"}} {running}
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{{model_name="m"}} {waiting}
# TYPE sglang:num_requests_total counter
sglang:num_requests_total{{model_name="m"}} {ended}
""".encode()


def triton(waiting: float = 0.0, ended: float = 4.0, failed: float = 0.0) -> bytes:
    return f"""# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
nv_inference_request_success{{model="m",version="1"}} {ended}
# TYPE nv_inference_request_failure counter
nv_inference_request_failure{{model="m",reason="OTHER",version="1"}} {failed}
# TYPE nv_inference_pending_request_count gauge
nv_inference_pending_request_count{{model="m",version="1"}} {waiting}
# TYPE nv_gpu_utilization gauge
nv_gpu_utilization{{gpu_uuid="GPU-1"}} 1
""".encode()


TRITON_UNUSED = b"""# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
# TYPE nv_inference_pending_request_count gauge
"""
VLLM_IN_TRITON = b"""# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{model="vllm_model",version="1"} 10
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="vllm_model",version="1"} 7
# TYPE nv_inference_pending_request_count gauge
nv_inference_pending_request_count{model="vllm_model",version="1"} 1
"""
TRITON_LLM = b"""# TYPE nv_inference_request_success counter
nv_inference_request_success{model="ensemble",version="1"} 4
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 2048
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 2
"""


def tgi(waiting: float = 0.0, batch: float = 0.0, ended: float = 5.0) -> bytes:
    return f"""# TYPE tgi_request_count counter
tgi_request_count {ended}
# TYPE tgi_queue_size gauge
tgi_queue_size {waiting}
# TYPE tgi_batch_current_size gauge
tgi_batch_current_size {batch}
""".encode()


def trtllm(ended: float = 6.0, failed: float = 0.0) -> bytes:
    """After its last request: the gauge stays at what the last step began with."""
    return f"""# HELP trtllm_num_requests_running Number of active requests
# TYPE trtllm_num_requests_running gauge
trtllm_num_requests_running{{engine_type="trtllm",model_name="m"}} 3.0
# TYPE trtllm_request_success_total counter
trtllm_request_success_total{{engine_type="trtllm",finished_reason="stop",model_name="m"}} {ended}
trtllm_request_success_created{{engine_type="trtllm",finished_reason="stop",model_name="m"}} 1.76e+09
# TYPE trtllm_request_error_total counter
trtllm_request_error_total{{engine_type="trtllm",model_name="m"}} {failed}
""".encode()


def lmdeploy(ended: float = 2.0, tokens: float = 100.0) -> bytes:
    return f"""# TYPE lmdeploy:num_requests_running gauge
lmdeploy:num_requests_running{{engine="0",model_name="m"}} 1.0
# TYPE lmdeploy:generation_tokens_total counter
lmdeploy:generation_tokens_total{{engine="0",model_name="m"}} {tokens}
# TYPE lmdeploy:e2e_request_latency_seconds histogram
lmdeploy:e2e_request_latency_seconds_bucket{{engine="0",le="0.3",model_name="m"}} 1.0
lmdeploy:e2e_request_latency_seconds_count{{engine="0",model_name="m"}} {ended}
""".encode()


def llama_cpp(running: float = 0.0, deferred: float = 0.0, tokens: float = 50.0) -> bytes:
    return f"""# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total {tokens}
# TYPE llamacpp:prompt_tokens_seconds gauge
llamacpp:prompt_tokens_seconds 512.3
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total 7
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing {running}
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred {deferred}
""".encode()


def dynamo(running: float = 0.0, queued: float = 0.0, ended: float = 8.0) -> bytes:
    return f"""# TYPE dynamo_frontend_disconnected_clients gauge
dynamo_frontend_disconnected_clients 0
# TYPE dynamo_frontend_inflight_requests gauge
dynamo_frontend_inflight_requests{{model="m"}} {running}
# TYPE dynamo_frontend_queued_requests gauge
dynamo_frontend_queued_requests{{model="m"}} {queued}
# TYPE dynamo_frontend_requests_total counter
dynamo_frontend_requests_total{{endpoint="chat_completions",model="m",status="success"}} {ended}
""".encode()


def tei(asked: float = 5.0, ended: float = 4.0) -> bytes:
    """One whose client had gone was left in the count of those that wait."""
    return f"""# TYPE te_request_count counter
te_request_count{{method="batch"}} {asked}
# TYPE te_request_success counter
te_request_success{{method="batch"}} {ended}
# TYPE te_queue_size gauge
te_queue_size 1
""".encode()


def nim(ended: float = 3.0, tokens: float = 40.0) -> bytes:
    return f"""# TYPE num_requests_running gauge
num_requests_running{{model_name="meta/llama"}} 0.0
# TYPE num_requests_waiting gauge
num_requests_waiting{{model_name="meta/llama"}} 0.0
# TYPE generation_tokens_total counter
generation_tokens_total{{model_name="meta/llama"}} {tokens}
# TYPE request_success_total counter
request_success_total{{finished_reason="stop",model_name="meta/llama"}} {ended}
""".encode()


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (vllm(), ("vLLM", 0.0, 10.0)),
        (vllm(running="3.0", waiting="2"), ("vLLM", 5.0, 10.0)),
        (vllm().replace(b"\n", b"\r\n"), ("vLLM", 0.0, 10.0)),
        (vllm() + b'vllm:num_requests_running{engine="1",model_name="m"} 1.0', ("vLLM", 1.0, 10.0)),
        (b'vllm:num_requests_running{engine="0"} 1.0 1700000000000\n', ("vLLM", 1.0, 0.0)),
        (sglang(1.0), ("SGLang", 1.0, 9.0)),
        (sglang(0.0, 2.0), ("SGLang", 2.0, 9.0)),
        (triton(), ("Triton", 0.0, 4.0)),
        (triton(1.0, 4.0, 2.0), ("Triton", 1.0, 6.0)),
        (TRITON_UNUSED, ("Triton", 0.0, 0.0)),
        (TRITON_LLM, ("Triton", 2.0, 4.0)),
        (VLLM_IN_TRITON, ("Triton", 1.0, 7.0)),
        (tgi(), ("TGI", 0.0, 5.0)),
        (tgi(1.0, 4.0), ("TGI", 5.0, 5.0)),
        (trtllm(failed=1.0), ("TensorRT-LLM", 0.0, 7.0)),
        (lmdeploy(), ("LMDeploy", 0.0, 102.0)),
        (llama_cpp(), ("llama.cpp", 0.0, 57.0)),
        (llama_cpp(2.0, 1.0), ("llama.cpp", 3.0, 57.0)),
        (dynamo(), ("Dynamo", 0.0, 8.0)),
        (dynamo(1.0, 4.0), ("Dynamo", 5.0, 8.0)),
        (tei(), ("TEI", 0.0, 9.0)),
        (nim(), ("NIM", 0.0, 43.0)),
    ],
)
def test_the_requests_of_each_kind_of_server(body: bytes, found: tuple[str, float, float]) -> None:
    """Running and waiting together, over all engines and models; nothing of a longer name."""
    assert requests(body) == found


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not a known inference server's"),
        (b"<html>vllm: welcome</html>", "not a known inference server's"),
        (b"# TYPE up gauge\nup 1\n", "not a known inference server's"),
        (b"# TYPE num_requests_total counter\nnum_requests_total 5\n", "not a known inference server's"),
        (b"node_load1 0.5\nnote vllm:num_requests_running 3\n", "not a known inference server's"),
        (b"vllm:cache_config_info 1.0\n", "shows no requests on its vLLM page"),
        (vllm("NaN"), "shows no count of requests"),
        (vllm("+Inf"), "shows no count of requests"),
        (vllm("-1.0"), "shows no count of requests"),
        (vllm("many"), "shows no count of requests"),
        (vllm(""), "shows no count of requests"),
        (b"vllm:num_requests_running 1\n" * 2000, "a page with too many lines"),
    ],
)
def test_what_shows_no_requests(body: bytes, words: str) -> None:
    """The page of a stranger, a part of one, and numbers that are none: unknown, never quiet."""
    with pytest.raises(PageError, match=words):
        requests(body)


@pytest.mark.parametrize(
    ("line", "family", "ports"),
    [
        ("vllm serve meta/Llama --port 8123", "vLLM", (8123,)),
        ("/usr/bin/python3 /usr/local/bin/vllm serve m", "vLLM", (8000,)),
        ("python3 -m vllm.entrypoints.openai.api_server --port=9000", "vLLM", (9000,)),
        ("python -m sglang.launch_server --model-path m", "SGLang", (30000,)),
        ("tritonserver --http-port 8100 --metrics-port=8102", "Triton", (8102,)),
        ("text-generation-launcher -p 8080", "TGI", (8080,)),
        ("text-generation-router-llamacpp --port 8081", "TGI", (8081,)),
        ("python3 -X faulthandler -W ignore /opt/vllm serve m", "vLLM", (8000,)),
        ("python3 -W ignore train.py vllm", None, ()),
        ("python3 train.py --name vllm", None, ()),
        ("python3 -c pass", None, ()),
        ("python3 -c vllm", None, ()),
        ("python3 -m", None, ()),
        ("python3 -u -m", None, ()),
        ("python3", None, ()),
        ("python3 -", None, ()),
        ("python3 -m vllm", "vLLM", (8000,)),
        ("python3 -u -O -m sglang.launch_server", "SGLang", (30000,)),
        ("python3.12 -u /opt/vllm.py serve", "vLLM", (8000,)),
        ("python3 vllm/train.py", None, ()),
        ("python3 -m train vllm", None, ()),
        ("pythonista -m vllm", "vLLM", (8000,)),
        ("vllm --port 1 --port=2 --port", "vLLM", (1, 2)),
        ("vllm --port", "vLLM", (8000,)),
        ("vllm --port= 7", "vLLM", (7,)),
        ("vllm --porter 7 -p 8", "vLLM", (8000,)),
        ("vllm --port \u0663", "vLLM", (8000,)),
        ("text-generation-router --prometheus-port 9100 --port 3000", "TGI", (9100, 3000)),
        ("text_generation_launcher.py", "TGI", (80, 3000, 8080, 9000)),
        ("vllm serve m --port x", "vLLM", (8000,)),
        ("/usr/bin/python3 /usr/local/bin/trtllm-serve m --port 8001", "TensorRT-LLM", (8001,)),
        ("lmdeploy serve api_server m --server-port 23334 --enable-metrics", "LMDeploy", (23334,)),
        ("/app/llama-server -m m.gguf --metrics", "llama.cpp", (8080,)),
        ("/app/llama-server -m m.gguf --metrics --sleep-idle-seconds 300", None, ()),
        ("/app/llama-server -m m.gguf --metrics --sleep-idle-seconds=300", None, ()),
        ("python3 -m dynamo.frontend --http-port 8100", "Dynamo", (8100,)),
        ("python3 -m dynamo.vllm --model m", None, ()),
        ("text-embeddings-router --model-id m --port 8081", "TEI", (8081,)),
        ("/opt/nim/llm/.venv/bin/python3 -m nim_llm_sdk.entrypoints.openai.api_server", "NIM", (8000,)),
        ("python3 -m vllm_nvext.entrypoints.openai.api_server", "NIM", (8000,)),
        ("", None, ()),
    ],
)
def test_a_server_is_known_by_its_arguments(line: str, family: str | None, ports: tuple[int, ...]) -> None:
    """By the program, or the module or script that Python runs; not by what else stands there."""
    found = family_of(line.split())
    assert (found.name if found else None) == family
    if found:
        assert ports_of(found, line.split()) == ports


def test_usual_ports_are_those_of_the_servers() -> None:
    """None is asked of a process with any name that no server uses."""
    assert set(USUAL_PORTS) <= {port for family in FAMILIES for port in family.ports}


class World:
    """A /proc with processes that the test writes, this test's own sockets, and time."""

    def __init__(self, folder: Path, quiet_for: float = 0.0, urls: tuple[str, ...] = ()) -> None:
        self.proc, self.dev = folder / "proc", folder / "dev"
        for made in (self.proc, self.dev):
            made.mkdir()
        for pid in ("1", str(os.getpid())):
            (self.proc / pid).symlink_to(f"/proc/{pid}")
        (self.proc / "self").symlink_to(str(os.getpid()))
        self.place = SensePaths(proc=str(self.proc), dev=str(self.dev))
        self.processes = Processes(self.place)
        self.sense = Serving({"quiet_for": quiet_for, "urls": list(urls)}, self.place)
        self.patience = WITHIN
        self.now = 5000.0

    def process(
        self, pid: int, line: str, *, parent: int = 1, name: str = "python3", holds: tuple[str, ...] = ()
    ) -> None:
        folder = self.proc / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0")
        (folder / "cmdline").write_bytes(line.replace(" ", "\0").encode() + b"\0")
        for number, target in enumerate(holds):
            (folder / "fd" / str(number)).symlink_to(target)

    def look(self, after: float = STEP) -> Sight:
        self.now += after
        self.processes.look(self.now)
        begun = time.monotonic()
        sight = look_as_reader(self.sense, Moment(self.now, 0.0), self.processes)
        assert time.monotonic() - begun < LOOK_SECONDS
        settle(self.sense, lambda: self.sense.go_on(Moment(self.now, 0.0)), lambda: self.patience)
        pages = (*self.sense._pages.values(), *self.sense._named.values())
        answered([page._page for page in pages], self.patience)
        return sight

    def looks(self, count: int) -> Sight:
        return [self.look() for _ in range(count)][-1]


Serve = Callable[..., Server]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def serve() -> Iterator[Serve]:
    made: list[Server] = []

    def start(script: Script, port: int = 0) -> Server:
        made.append(Server(script, port=port))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_no_server_runs(world: World) -> None:
    """Nothing is asked, and nothing is unknown."""
    assert world.looks(3) == Sight(seen="no inference server runs")


def test_a_server_with_requests_keeps_the_machine_up_within_two_looks(world: World, serve: Serve) -> None:
    """Named with kind, user and port; the end of its requests lets it go."""
    server = serve(page(vllm(running=2.0)))
    world.process(5_000_000, f"vllm serve m --port {server.port}", name="vllm")
    world.look()
    (one,) = world.look().active
    assert one.who == f"vLLM of {one.user} on port {server.port}"
    assert (one.what, one.lets_go) == ("had requests", "a look without requests")
    since = one.since
    for _ in range(20):
        (one,) = world.look(600.0).active
    assert one.since == since
    server.script = page(vllm())
    world.look()
    assert world.look() == Sight(seen="no inference server has requests")


def elsewhere(path: str, body: bytes) -> Script:
    """Nothing is found anywhere but there."""

    def script(connection: socket.socket, request: bytes) -> None:
        found = request.startswith(f"GET {path} ".encode())
        (page(body) if found else page(b"{}", "404 Not Found"))(connection, request)

    return script


@pytest.mark.parametrize(
    ("name", "line", "path", "bodies", "family"),
    [
        ("trtllm-serve", "python3 /usr/local/bin/trtllm-serve m", "/prometheus/metrics", (trtllm(), trtllm(7.0)), "TensorRT-LLM"),
        ("python3", "python3 -m nim_llm_sdk.entrypoints.openai.api_server", "/v1/metrics", (nim(), nim(4.0)), "NIM"),
        ("python3", "python3 -m vllm_nvext.entrypoints.openai.api_server", "/metrics", (nim(), nim(tokens=41.0)), "NIM"),
        ("lmdeploy", "python3 /usr/local/bin/lmdeploy serve api_server m", "/metrics", (lmdeploy(), lmdeploy(tokens=101.0)), "LMDeploy"),
        ("llama-server", "/app/llama-server -m m --metrics", "/metrics", (llama_cpp(), llama_cpp(tokens=51.0)), "llama.cpp"),
        ("python3", "python3 -m dynamo.frontend", "/metrics", (b"", dynamo()), "Dynamo"),
        ("text-embeddings", "text-embeddings-router", "/metrics", (b"\n", tei()), "TEI"),
    ],
)  # fmt: skip
def test_a_server_counts_when_it_has_had_a_request_and_not_before(
    world: World, serve: Serve, name: str, line: str, path: str, bodies: tuple[bytes, bytes], family: str
) -> None:
    """Each at the path of its own page, which may be empty before the first one."""
    server = serve(elsewhere(path, bodies[0]))
    world.process(4, f"{line} --port {server.port} --server-port {server.port} --http-port {server.port}", name=name)
    assert world.looks(6) == Sight(seen="no inference server has requests")
    if family == "TensorRT-LLM":
        assert not any(request.startswith(b"GET /metrics ") for request in server.requests), "what others wait for"
    server.script = elsewhere(path, bodies[1])
    (one,) = world.looks(2).active
    assert one.who == f"{family} of {one.user} on port {server.port}"
    assert world.looks(3).active == ()


def test_a_server_without_a_page_is_told_once_all_paths_were_tried(world: World, serve: Serve) -> None:
    """It may have one later."""
    server = serve(page(b"{}", "404 Not Found"))
    world.process(4, f"python3 -m nim_llm_sdk.entrypoints.openai.api_server --port {server.port}")
    unknown = world.looks(4).unknown
    assert unknown.endswith("answers with status 404")
    server.script = elsewhere("/metrics", nim())
    world.looks(10)
    server.script = elsewhere("/metrics", nim(4.0))
    assert any(world.look().active for _ in range(3))


def test_a_server_that_pytorch_has_renamed_is_still_one(world: World, serve: Serve) -> None:
    """The name of the process is no longer the program's; its arguments are."""
    server = serve(page(vllm(running=2.0)))
    world.process(5_000_000, f"python3 /usr/local/bin/vllm serve m --port {server.port}", name="pt_main_thread")
    world.look()
    assert world.look().active


def test_a_server_that_waits_for_requests_does_not_hold(world: World, serve: Serve) -> None:
    """A day of a loaded model that nobody asks, although its page is asked for in every look."""
    server = serve(page(vllm()))
    world.process(5_000_000, f"vllm serve m --port {server.port}")
    world.look()
    for _ in range(96):
        assert world.look(900.0) == Sight(seen="no inference server has requests")
    assert len(server.requests) > 90


@pytest.mark.parametrize(("quiet_for", "words"), [(20.0, "20 s"), (90.0, "90 s"), (3600.0, "1 h")])
def test_what_lets_it_go_is_told_as_people_say_it(tmp_path: Path, serve: Serve, quiet_for: float, words: str) -> None:
    """In seconds, minutes or hours, whichever come out even."""
    world = World(tmp_path, quiet_for=quiet_for)
    server = serve(page(vllm(running=2.0)))
    world.process(5_000_000, f"vllm serve m --port {server.port}", name="vllm")
    (one,) = world.looks(2).active
    assert one.lets_go == f"{words} without requests"


def test_requests_between_two_looks_count(tmp_path: Path, serve: Serve) -> None:
    """A server that answers fast is never seen busy: its count of requests has grown. A count that falls is a restart."""
    world = World(tmp_path, quiet_for=600.0)
    server = serve(page(vllm(ended=100.0)))
    world.process(5_000_000, f"vllm serve m --port {server.port}")
    assert world.looks(5).active == ()
    server.script = page(vllm(ended=101.0))
    world.look()
    (one,) = world.look().active
    assert one.lets_go == "10 min without requests"
    assert world.look(500.0).active
    assert world.look(120.0).active == ()
    server.script = page(vllm(ended=0.0))
    assert world.looks(3).active == ()
    server.script = page(vllm(ended=1.0))
    world.look()
    assert world.look().active


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (page(b"hello", "404 Not Found"), "answers with status 404"),
        (page(b"<html></html>"), "has a page that is not a known inference server's"),
        (page(vllm() + b"#" * (1 << 20)), "sends more than 1024 kB"),
        (raw(b"SSH-2.0-OpenSSH\r\n"), "does not speak HTTP"),
        (page(b"", "302 Found", "Location: http://127.0.0.1:1/"), "answers with status 302"),
        (silence, "does not answer"),
    ],
)
def test_a_strangers_page_is_unknown(world: World, serve: Serve, script: Script, words: str) -> None:
    """Told with kind, user and port; asked more and more rarely, and again when the server is itself."""
    server = serve(script)
    world.patience = 0.02 if script is silence else WITHIN
    world.process(5_000_000, f"vllm serve m --port {server.port}")
    world.looks(5)
    sight = world.look()
    assert sight.active == ()
    assert sight.unknown.startswith("vLLM of ")
    assert sight.unknown.endswith(f" on port {server.port} {words}")
    before = len(server.requests)
    for _ in range(60):
        assert world.look().unknown
    assert len(server.requests) - before <= 8
    server.script = page(vllm(running=1.0))
    world.patience = WITHIN
    world.look(300.0)
    assert world.looks(3).active


def test_a_server_that_ends_leaves_nothing_behind(world: World, serve: Serve) -> None:
    """Its process is gone: so is what was known of it."""
    server = serve(page(vllm(running=1.0)))
    world.process(5_000_000, f"vllm serve m --port {server.port}")
    assert world.looks(2).active
    server.close()
    for file in ("stat", "cmdline", "fd"):
        with contextlib.suppress(OSError):
            (world.proc / "5000000" / file).unlink()
    (world.proc / "5000000").rename(world.proc / "ended")
    assert world.looks(3) == Sight(seen="no inference server runs")


@pytest.mark.parametrize(("quiet_for", "asked"), [(0.0, 12), (29.0, 12), (30.0, 12), (59.0, 12), (60.0, 4), (900.0, 4)])
def test_a_server_at_work_is_asked_less_where_its_requests_count_long_enough(
    tmp_path: Path, serve: Serve, quiet_for: float, asked: int
) -> None:
    """It was just seen: what it does counts for twice the time until it is asked again."""
    world = World(tmp_path, quiet_for=quiet_for)
    server = serve(page(vllm(running=1.0)))
    world.process(5_000_000, f"vllm serve m --port {server.port}", name="vllm")
    assert world.looks(4).active
    before = len(server.requests)
    for _ in range(12):
        assert world.look().active
    assert asked - 1 <= len(server.requests) - before <= asked + 1


def test_servers_that_come_one_after_another_are_all_asked(world: World, serve: Serve) -> None:
    """Each is known from its first page on, whichever were there before; and when the first one ends, the others stay."""
    made = [serve(page(vllm(running=1.0))) for _ in range(3)]
    for number, server in enumerate(made, 1):
        world.process(5_000_000 + number, f"vllm serve m --port {server.port}")
        sight = world.looks(3)
        assert (len(sight.active), sight.unknown) == (number, "")
    made[0].script = page(vllm())
    (world.proc / "5000001").rename(world.proc / "ended")
    assert len(world.looks(3).active) == 2


def test_a_server_that_has_just_ended_is_no_trouble(world: World, serve: Serve) -> None:
    """The processes may show it for some looks still: nobody listens, so nothing is served."""
    server = serve(page(vllm()))
    world.process(5_000_000, f"vllm serve m --port {server.port}")
    assert world.looks(2).unknown == ""
    server.close()
    for _ in range(10):
        assert world.look().unknown == ""


def test_another_users_port_is_not_asked_for_a_server(world: World, serve: Serve) -> None:
    """The process names a port on which somebody else listens: its page would speak for the wrong one."""
    server = serve(page(vllm(running=1.0)))
    world.process(5_000_000, f"vllm serve m --port {server.port}")
    os.chown(world.proc / "5000000", 4321 if os.geteuid() == 0 else -1, -1)
    sight = world.looks(3)
    assert bool(sight.active) is (os.geteuid() != 0)
    assert len(server.requests) == (0 if os.geteuid() == 0 else 3)


def test_a_known_program_with_a_port_of_its_own_is_asked_there(world: World, serve: Serve) -> None:
    """Its port may stand in a file of settings: of what it listens on, one has the page, and the others are no trouble."""
    server = serve(page(vllm(running=1.0)))
    other = serve(page(b"no", "404 Not Found"))
    inodes = {port: inode for inode, port in _own_sockets()}
    world.process(
        5_000_000, "vllm server.py", holds=(f"socket:[{inodes[server.port]}]", f"socket:[{inodes[other.port]}]")
    )
    sight = world.looks(3)
    assert [one.who for one in sight.active] == [f"vLLM of {sight.active[0].user} on port {server.port}"]
    assert sight.unknown == ""
    server.script = page(b"no", "404 Not Found")
    assert "answers with status 404" in world.looks(8).unknown


def test_forked_workers_are_one_server(world: World, serve: Serve) -> None:
    """They have the arguments of the first one: its page is asked for once."""
    server = serve(page(vllm(running=1.0)))
    for pid in (5_000_000, 5_000_001, 5_000_002):
        world.process(pid, f"python3 -m vllm.entrypoints.openai.api_server --port {server.port}")
    assert len(world.looks(3).active) == 1
    assert len(server.requests) == 3


def test_a_user_cannot_hide_another_ones_server(world: World, serve: Serve) -> None:
    """So many of one user are asked; that there are more is unknown."""
    made = [serve(page(vllm())) for _ in range(SERVERS_OF_A_USER + 1)]
    for number, server in enumerate(made):
        world.process(5_000_000 + number, f"vllm serve m --port {server.port}")
    assert world.looks(2).unknown.endswith("has more inference servers than costguard asks")
    assert len([server for server in made if server.requests]) == SERVERS_OF_A_USER


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make processes of another user")
def test_a_user_whose_servers_take_too_long_keeps_no_others_from_being_asked(
    world: World, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of his own the first is asked, and that there are more is unknown."""
    monkeypatch.setattr(serving, "SECONDS", 0.0)  # so that one takes as long as may be
    made = [serve(page(vllm(running=1.0))) for _ in range(2)]
    os.seteuid(4321)  # whoever makes a socket owns it
    try:
        made.append(serve(page(vllm(running=1.0))))
    finally:
        os.seteuid(0)
    for number, server in enumerate(made):
        world.process(5_000_000 + number, f"vllm serve m --port {server.port}", name="vllm")
    os.chown(world.proc / "5000002", 4321, -1)
    sight = world.looks(3)
    assert sorted(one.who for one in sight.active) == [
        f"vLLM of root on port {made[0].port}", f"vLLM of uid 4321 on port {made[2].port}",
    ]  # fmt: skip
    assert (
        sight.unknown
        == "root has more inference servers than costguard asks; uid 4321 has more inference servers than costguard asks"
    )


# ---- a process with any name ------------------------------------------------------------------


def test_a_process_that_holds_a_gpu_is_asked_on_a_usual_port(world: World, serve: Serve) -> None:
    """Whatever its name, and also where a process below it holds the GPU; one that holds none is left alone."""
    server = serve(page(sglang(running=1.0)))
    world.sense.usual_ports = (server.port,)  # the real ones may be taken here
    inode = next(row for row in _own_sockets() if row[1] == server.port)[0]
    world.process(3, "python3 serve.py", holds=(f"socket:[{inode}]", f"{world.dev}/nvidiactl"))
    assert world.looks(3) == Sight(seen="no inference server runs")
    assert server.requests == []
    world.process(5, "python3 worker.py", parent=3, holds=("/dev/null", f"{world.dev}/nvidia0"))
    world.look(90.0)
    (one,) = world.looks(2).active
    assert one.who == f"SGLang of {one.user} on port {server.port}"


def test_a_usual_port_of_which_nobody_sees_the_process_is_left_alone(world: World, serve: Serve) -> None:
    """That another process holds a GPU says nothing about it."""
    server = serve(page(sglang(running=1.0)))
    world.sense.usual_ports = (server.port,)
    _shows_nothing_of_itself(world)
    world.process(5, "python3 train.py", holds=("/dev/null", f"{world.dev}/nvidia0"))
    assert world.looks(3) == Sight(seen="no inference server runs")
    assert server.requests == []


def test_a_usual_port_whose_process_only_root_may_look_at_is_unknown(world: World, serve: Serve) -> None:
    """An agent that is not root's would take it for a machine without a server."""
    server = serve(page(sglang(running=1.0)))
    world.sense.usual_ports = (server.port,)
    inode = next(row for row in _own_sockets() if row[1] == server.port)[0]
    _shows_nothing_of_itself(world)
    world.process(5, "python3 serve.py", holds=(f"socket:[{inode}]", f"{world.dev}/nvidia0"))
    with closed(world.proc / "5" / "fd"):
        assert world.looks(3).unknown == f"only root can see what listens on port {server.port}"
    assert server.requests == []
    world.look(LIST_RARELY_SECONDS)
    sight = world.looks(2)
    assert (len(sight.active), sight.unknown) == (1, ""), "as soon as it may"


def test_a_usual_port_whose_process_takes_too_long_to_be_found_is_unknown(
    world: World, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its user may have a million files open. It is looked for again, and found once there are fewer."""
    monkeypatch.setattr(serving, "SECONDS", 0.0)  # so that the first process takes as long as may be
    server = serve(page(sglang(running=1.0)))
    world.sense.usual_ports = (server.port,)
    inode = next(row for row in _own_sockets() if row[1] == server.port)[0]
    world.process(3, "python3 other.py", holds=("/dev/null",))
    world.process(5, "python3 serve.py", holds=(f"socket:[{inode}]", f"{world.dev}/nvidia0"))
    assert world.looks(3).unknown.endswith("has more inference servers than costguard asks")
    assert server.requests == []
    monkeypatch.setattr(serving, "SECONDS", WITHIN)
    world.look(LIST_RARELY_SECONDS)
    sight = world.looks(2)
    assert (len(sight.active), sight.unknown) == (1, "")


def test_who_has_just_ended_hides_no_server(world: World, serve: Serve) -> None:
    """Nothing can be read of what it had open: nor of a server's worker, nor of a server that listens elsewhere."""
    server = serve(page(sglang(running=1.0)))
    world.sense.usual_ports = (server.port,)
    inode = next(row for row in _own_sockets() if row[1] == server.port)[0]
    world.process(3, "python3 ended.py")
    world.process(4, "vllm serve elsewhere --port 1")
    world.process(5, "python3 serve.py", holds=(f"socket:[{inode}]",))
    world.process(6, "python3 ended.py", parent=5)
    world.process(7, "python3 worker.py", parent=5, holds=(f"{world.dev}/nvidia0",))
    for pid in (3, 4, 6):
        (world.proc / str(pid) / "fd").rmdir()
    assert [one.who.partition(" ")[0] for one in world.looks(3).active] == ["SGLang"]


def test_a_process_that_becomes_a_server_is_found_though_its_name_stays(world: World, serve: Serve) -> None:
    """Between fork and exec it has its parent's arguments."""
    world.process(4, "python3 launch.py")
    assert world.look() == Sight(seen="no inference server runs")
    server = serve(page(vllm(running=1.0)))
    (world.proc / "4" / "cmdline").write_bytes(f"vllm\0serve\0m\0--port\0{server.port}\0".encode())
    (one,) = world.looks(2).active
    assert one.who == f"vLLM of {one.user} on port {server.port}"


def test_a_server_that_listens_late_is_found_after_a_rest(world: World, serve: Serve) -> None:
    """Nothing was there to be asked for an hour."""
    world.process(3, "python3 wait.py", holds=(f"{world.dev}/nvidia0",))
    assert world.looks(360) == Sight(seen="no inference server runs")
    server = serve(page(sglang(running=1.0)))
    world.sense.usual_ports = (server.port,)
    inode = next(row for row in _own_sockets() if row[1] == server.port)[0]
    (world.proc / "3" / "fd" / "9").symlink_to(f"socket:[{inode}]")
    world.look(LIST_RARELY_SECONDS)
    (one,) = world.looks(2).active
    assert one.who == f"SGLang of {one.user} on port {server.port}"


def _shows_nothing_of_itself(world: World) -> None:
    """Of what the test has open: the sockets of the servers that it serves, too."""
    own = world.proc / str(os.getpid())
    own.unlink()
    world.process(os.getpid(), "python3 test.py")
    for name in ("ns", "net"):
        (own / name).symlink_to(f"/proc/self/{name}")


def _own_sockets() -> list[tuple[int, int]]:
    """Inode and port of this process's listening sockets."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError, ValueError):
            if not stat.S_ISSOCK(os.stat(f"/proc/self/fd/{name}").st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                found.append((os.fstat(one.fileno()).st_ino, one.getsockname()[1]))
    return found


def test_no_other_port_of_a_process_with_a_gpu_is_asked(world: World, serve: Serve) -> None:
    """A rendezvous of a training job may take harm from a request that it does not understand."""
    server = serve(page(vllm(running=1.0)))
    inode = next(row for row in _own_sockets() if row[1] == server.port)[0]
    world.process(5_000_000, "torchrun train.py", holds=(f"socket:[{inode}]", f"{world.dev}/nvidia0"))
    world.process(5_000_001, "vllm serve m", holds=("/dev/null", f"{world.dev}/nvidia0"))
    assert world.looks(5) == Sight(seen="no inference server runs")
    assert server.connections == 0


# ---- pages that the owner names ------------------------------------------------------------------


def test_a_page_that_the_owner_names(tmp_path: Path, serve: Serve) -> None:
    """Asked whoever listens there; nobody listens: nothing is served there."""
    server = serve(page(tgi(waiting=1.0)))
    world = World(tmp_path, urls=(f"http://localhost:{server.port}/inner/metrics",))
    (one,) = world.looks(2).active
    assert one.who == f"TGI on port {server.port}"
    assert server.requests[0].startswith(b"GET /inner/metrics HTTP/1.1\r\n")
    server.close()
    assert world.looks(3) == Sight(seen="no inference server has requests")


def test_a_named_page_is_not_asked_twice(tmp_path: Path, serve: Serve) -> None:
    """The server that is found by itself is the same one."""
    server = serve(page(vllm(running=1.0)))
    world = World(tmp_path, urls=(f"http://127.0.0.1:{server.port}/metrics",))
    world.process(5_000_000, f"vllm serve m --port {server.port}")
    assert len(world.looks(3).active) == 1
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://localhost:8000/metrics", ("127.0.0.1", 8000, "/metrics")),
        ("http://127.0.0.2:8000", ("127.0.0.2", 8000, "/metrics")),
        ("http://[::1]:9000/m?x=1", ("::1", 9000, "/m?x=1")),
        ("http://127.0.0.1/metrics", ("127.0.0.1", 80, "/metrics")),
        ("http://127.0.0.1:1/metrics", ("127.0.0.1", 1, "/metrics")),
        ("http://127.0.0.1:65535/metrics", ("127.0.0.1", 65535, "/metrics")),
        ("http://[::1]/metrics", ("::1", 80, "/metrics")),
    ],
)
def test_addresses_of_pages(url: str, found: tuple[str, int, str]) -> None:
    """With and without a port and a path."""
    assert parts(url) == found


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:8000/metrics", "http://10.0.0.7:8000/metrics", "http://example.org/metrics", "127.0.0.1:8000", "",
        "http://127.0.0.1:65536/", "http://127.0.0.1:0/", "http://127.0.0.1:x/", "http://127.0.0.1:8000/a b", "http://127.0.0.1:8000/\r\nX: y",
        "http://user@127.0.0.1:8000/", "http://169.254.169.254/latest",
    ],
)  # fmt: skip
def test_no_other_address_is_taken(tmp_path: Path, url: str) -> None:
    """Not the machine's own service of its cloud, no other machine, nothing that changes the request: told, and not quoted."""
    with pytest.raises(ValueError, match="this machine"):
        parts(url)
    sight = World(tmp_path, urls=(url,)).look()
    assert sight.unknown == "a page in senses.serving.urls is not an http address of this machine"


def test_the_clock_may_stand_or_leap(world: World, serve: Serve) -> None:
    """After a suspension the next page decides; no moment lies after now."""
    server = serve(page(vllm(running=1.0)))
    world.process(5_000_000, f"vllm serve m --port {server.port}")
    world.looks(2)
    server.script = page(vllm())
    world.look(8 * HOUR)
    assert world.look(0.0).active == ()
    assert math.isfinite(world.now)
