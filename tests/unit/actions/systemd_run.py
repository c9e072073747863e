"""A strict stand-in of systemd-run(1), as of version 252: ``--wait --pipe`` of one service.

It takes the options that it knows and no others, expands variables as systemd does, starts the service as nobody's child, and
kills all of it at its time-out and after its first process. The folder in which it lies gets what it was asked (`asked`) and
may have its `trouble`: text that it says, and ends with 1.
"""

import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(sys.argv[0]).parent
FLAGS = {"--wait", "--pipe", "--collect", "--no-ask-password", "--service-type=exec"}
PROPERTIES = {"EnvironmentFile", "RuntimeMaxSec", "TimeoutStopSec", "SyslogIdentifier", "User"}


def fail(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.exit(1)


def environment(path: str) -> dict[str, str]:
    """Of an EnvironmentFile= that nobody else may read."""
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    found = {"PATH": "/usr/bin:/bin", "INVOCATION_ID": "its own"}
    for name, value in re.findall(r'^(\w+)="((?:[^"\\]|\\.)*)"$', Path(path).read_text(), re.MULTILINE | re.DOTALL):
        found[name] = re.sub(r'\\(["\\$`])', r"\1", value)
    return found


def expanded(word: str, variables: dict[str, str]) -> str:
    """`$$` is a dollar sign; `${NAME}` is the variable; a lone one in a word stays."""
    return re.sub(r"\$\$|\$\{(\w+)\}", lambda m: variables.get(m[1], "") if m[1] else "$", word)


def running(group: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=,stat=", "-s", str(group)], capture_output=True, text=True, check=False).stdout.splitlines()  # fmt: skip
    return [int(line.split()[0]) for line in found if "Z" not in line.split()[1]]


def serve(argv: list[str], variables: dict[str, str], longest: float, grace: float, answer: int) -> None:
    """The manager's part: not a child of whoever asked."""
    child = subprocess.Popen(argv, env=variables, start_new_session=True, cwd="/")
    result = "success"
    try:
        child.wait(longest)
    except subprocess.TimeoutExpired:
        result = "timeout"
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
        end = time.monotonic() + patience
        for pid in running(child.pid):
            os.kill(pid, number)
        while (child.poll() is None or running(child.pid)) and time.monotonic() < end:
            time.sleep(0.02)
    code = child.wait()
    if result == "success" and code:
        result = "exit-code" if code > 0 else "signal"
    status = f"code=exited/status={code}" if code >= 0 else f"code=killed/status={signal.Signals(-code).name[3:]}"
    text = f"Finished with result: {result}\nMain processes terminated with: {status}\nService runtime: 1ms\n"
    os.write(answer, f"{code if result == 'exit-code' else int(result != 'success')}\n{text}".encode())


def main() -> None:
    options, argv = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    (HERE / "asked").write_text("\n".join([*options, *argv, *(f"{k}={v}" for k, v in os.environ.items())]))
    if (HERE / "trouble").exists():
        fail((HERE / "trouble").read_text())
    properties, unit = {}, ""
    for option in options:
        name, _, value = option.partition("=")
        if name == "--property":
            key, _, properties[value.partition("=")[0]] = value.partition("=")
            if key not in PROPERTIES:
                fail(f"Unknown assignment: {value}")
        elif name == "--unit":
            unit = value
        elif option not in FLAGS and name != "--description":
            fail(f"systemd-run: unrecognized option '{option}'")
    assert set(options) >= FLAGS
    variables = environment(properties["EnvironmentFile"])
    sys.stderr.write(f"Running as unit: {unit}\n")
    sys.stderr.flush()
    answer, mine = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            words = [expanded(word, variables) for word in argv]
            serve(words, variables, float(properties["RuntimeMaxSec"]), float(properties["TimeoutStopSec"]), mine)
        os._exit(0)
    os.close(mine)
    data = b""
    while more := os.read(answer, 4096):
        data += more
    code, _, text = data.decode().partition("\n")
    sys.stderr.write(text)
    sys.exit(int(code or 1))


main()
