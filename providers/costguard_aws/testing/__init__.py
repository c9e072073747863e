"""Stand-ins for EC2, Auto Scaling and the metadata service, for whoever tests against them. Needs ``moto[ec2,autoscaling,server]``.

>>> from costguard_aws.testing import machine
>>> with machine("/tmp/files", "p5.48xlarge") as here:      # doctest: +SKIP
...     here.api.fail("throttle", "StopInstances", times=2)  # the next two are refused
...     site = here.site(local_data="discard")               # for `costguard_aws.PROVIDER`
...     here.environ()                                       # for an installed costguard
...     here.api.calls()                                     # what was sent, dry runs left out

Everything listens on loopback alone. `Imds` is strict about tokens; `Api` is moto with the refusals of the
real services and troubles on demand; `FakeMachine` ties both to files that a kernel would show. A process can
have one `Api` at a time: moto keeps its resources in the process.
"""

from costguard_aws.testing.api import Api, Fault, Nature, Request
from costguard_aws.testing.imds import Asked, Imds
from costguard_aws.testing.machine import FakeMachine, machine
from costguard_aws.testing.secret_store import Kept

__all__ = ["Api", "Asked", "FakeMachine", "Fault", "Imds", "Kept", "Nature", "Request", "machine"]
