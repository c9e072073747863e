"""What to do next, where the advice is the same on every cloud: one wording of each."""

AGAIN = "run it again; a running agent does so by itself, see `costguard status`"
"""About a passing trouble, whoever asked: a person by hand, or the agent."""

DOCTOR = "run `costguard doctor`"
"""About what only a full check explains."""

THEN_DOCTOR = f"then {DOCTOR}"
"""The end of advice about a cause outside of costguard."""

RIGHTS_ARRIVE = f"wait some minutes, then {AGAIN}"
"""About a right that a young machine does not have yet."""

WHO_ANSWERS = f"check the proxy and cloud.api_endpoint, {THEN_DOCTOR}"
"""About an answer that is not the cloud's."""

NETWORK = f"check DNS, route, firewall and proxy (HTTPS_PROXY, NO_PROXY) of this machine, {THEN_DOCTOR}"
"""About a cloud that cannot be reached."""

METADATA = f"check cloud.metadata_endpoint and what answers there, {THEN_DOCTOR}"
"""About a metadata service that is not the cloud's."""

ADDRESS = "write it as http://HOST[:PORT] in cloud.metadata_endpoint"
"""About a malformed address of a metadata service."""

PROVIDER = f"correct cloud.provider, {THEN_DOCTOR}"
"""About a firmware that names another cloud than the configuration."""

HOST_NETWORK = "run costguard on the host, or in a container with the host's network"
"""About a metadata service that this process cannot reach."""

NO_METADATA = 'cloud.metadata = "never" hides which machine this is'
"""The text for a machine that may not be identified."""

CLOCK = "set this machine's clock: `timedatectl`"
"""About a clock that is too far from the cloud's."""

RESTART = "restart the agent: `systemctl restart costguard`"
"""About a machine that is not the one it was at the start."""

RECEIPT = "use the whole receipt from the acting message or from `costguard history`"
"""About a receipt that names no machine."""

PREPAID = 'set cloud.prepaid = "act" to end it anyway'
"""About a machine that is paid in advance."""


def proxy(addresses: str, endpoints: str = "cloud.api_endpoint") -> str:
    """About a refusal by a proxy or gateway; ``addresses`` are the cloud's, for NO_PROXY, ``endpoints`` what replaces them."""
    return (
        f"check the proxy (HTTPS_PROXY; let it pass, or exempt in NO_PROXY: {addresses}) and {endpoints}, {THEN_DOCTOR}"
    )
