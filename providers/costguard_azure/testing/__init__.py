"""Strict stand-ins for Azure on loopback: the metadata service, and the Resource Manager over https.

    with FakeAzure(World(size="Standard_NC4as_T4_v3")) as azure:
        azure.world.rights.remove("Microsoft.Compute/virtualMachines/deallocate/action")
        azure.faults.add("deallocate", "throttle", times=2, seconds=1)
        machine = Azure().open(azure.site(), Azure().identify(azure.site()))

The code under test is the code of production: it speaks https with a certificate of a throw-away authority,
whose file `FakeAzure.environ` names in ``REQUESTS_CA_BUNDLE``. What Azure would refuse is refused: an unknown
path, method, parameter or API version, a token that nobody gave out, a missing right, a lock, an ephemeral system
disk, a request without ``Metadata: true``. `FakeAzure.log` has every request with its answer.

Faults, by operation (`faults.OPERATIONS`) and kind (`faults.Kind`): throttling with Retry-After, a denied right
(for some requests only: a right that arrives late), any status and code, the connection cut before or after the
request took effect, an acceptance after which nothing happens, an error after which the machine stops all the same,
a slow answer. ``python -m costguard_azure.testing`` serves one machine to other programs.

The server needs ``trustme`` (a development dependency), which is imported when it starts.
"""

from costguard_azure.testing.azure import FakeAzure
from costguard_azure.testing.faults import Fault, Faults
from costguard_azure.testing.world import Disk, LockOn, ScaleSet, World

__all__ = ["Disk", "FakeAzure", "Fault", "Faults", "LockOn", "ScaleSet", "World"]
