"""Strict stand-ins for Google Cloud on loopback: the metadata server and the Compute Engine API.

    with MetadataServer(machine) as metadata, ComputeApi(machine) as api:
        site = Site(dmi={"product_name": "Google Compute Engine"}, environ={},
                    settings={"metadata_endpoint": metadata.url, "api_endpoint": api.url})

`MetadataServer` wants ``Metadata-Flavor: Google`` and refuses ``X-Forwarded-For`` as the real one does; it knows
``recursive``, ``alt``, ``wait_for_change``, ``last_etag`` and ``timeout_sec``, and sends ``ETag``.

`ComputeApi` answers the methods that costguard calls. Paths, query parameters and request bodies are checked
against the API's own discovery document, which ``google-api-python-client`` carries, and so is every answer
before it leaves: an unknown parameter is an error 400, an answer that the document does not allow raises in the
test. It keeps the API's refusals: access scopes, IAM rights of the machine and of the project, deletion
protection, local SSDs without ``discardLocalSsd``, suspending with GPUs, and it carries out one ``requestId`` once.
Faults are scripted with `Fault`; ``api.requests`` logs what came, ``api.effects`` what was done to the machine.

`Machine` is the one machine both speak of; `firmware` writes the files under ``/sys`` and ``/proc`` it would have.
"""

from costguard.testing.web import Request
from costguard_gcp.testing.api import ComputeApi, Fault
from costguard_gcp.testing.discovery import NotInDiscoveryError
from costguard_gcp.testing.firmware import firmware
from costguard_gcp.testing.machine import Group, LocalSsd, Machine
from costguard_gcp.testing.metadata import MetadataServer
from costguard_gcp.testing.secret_store import SecretApi

__all__ = [
    "ComputeApi",
    "Fault",
    "Group",
    "LocalSsd",
    "Machine",
    "MetadataServer",
    "NotInDiscoveryError",
    "Request",
    "SecretApi",
    "firmware",
]
