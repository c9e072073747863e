"""What a person is told to do next, where every cloud has the same advice: one spelling of each."""

AGAIN = "run it again; a running agent does so by itself, see `costguard status`"
"""About a trouble that passes, whoever asked: a person by hand, or the agent."""

RIGHTS_ARRIVE = f"wait some minutes, then {AGAIN}"
"""About a right that a young machine does not have yet."""

WHO_ANSWERS = "look for a proxy, and at cloud.api_endpoint, then run `costguard doctor`"
"""About an answer that is not the cloud's."""

CLOCK = "run `timedatectl` and set the clock"
"""About a clock that is too far from the cloud's."""


def proxy(addresses: str, endpoints: str = "cloud.api_endpoint") -> str:
    """About a refusal by something between; ``addresses`` are the cloud's, as NO_PROXY takes them, ``endpoints`` what replaces them."""
    return (
        f"look at the proxy (HTTPS_PROXY; NO_PROXY names what goes past it: {addresses}) and at {endpoints}, then "
        "run `costguard doctor`"
    )
