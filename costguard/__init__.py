"""costguard: stops idle GPU machines, and never stops work.

``Sentinel`` and ``get_gpu_usage`` are the small interface: one window rule, ticked by the caller.
``costguard.engine`` is the whole decision as pure functions, as the agent runs it: `Policy`, `initial`, `step` and
their values. ``costguard.testing`` has stand-ins for both.
"""

TYPE_CHECKING = False  # every process of the agent imports this; typing would cost each of them memory
if TYPE_CHECKING:
    from costguard.sentinel import Sentinel, SentinelState
    from costguard.usage import GpuUnreadableError, get_gpu_usage

__version__ = "0.1.0"

__all__ = ["GpuUnreadableError", "Sentinel", "SentinelState", "__version__", "get_gpu_usage"]

_HOMES = {
    "GpuUnreadableError": "costguard.usage",
    "Sentinel": "costguard.sentinel",
    "SentinelState": "costguard.sentinel",
    "get_gpu_usage": "costguard.usage",
}


def __getattr__(name: str) -> object:
    """Import lazily: every process of the agent imports this package, but few need its contents."""
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'costguard' has no attribute {name!r}"
        raise AttributeError(message)
    module = __import__(home, fromlist=[name])
    value: object = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
