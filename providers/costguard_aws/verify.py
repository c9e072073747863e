"""Ask EC2 from any machine what became of the machine of a receipt."""

from collections.abc import Mapping

from costguard.cloud import hints
from costguard.cloud.api import CloudError, Site
from costguard.plans import Result
from costguard_aws import act
from costguard_aws.session import Session


def verify(site: Site, receipt: Mapping[str, str]) -> Result:
    """``done`` when the bill has ended, ``pending`` while it ends, ``failed`` while it runs on. Raises CloudError."""
    instance, region = receipt.get("instance", ""), receipt.get("region", "")
    if not instance or not region:
        raise CloudError("refused", "the receipt names no instance and region", code="receipt", hint=hints.RECEIPT)
    session = Session(site, region)
    try:
        return _ask(session, instance, receipt)
    finally:
        session.close()


def _ask(session: Session, instance: str, receipt: Mapping[str, str]) -> Result:
    found = act.find(session, instance)
    account = receipt.get("account", "")
    if found is None:
        return _forgotten(session, instance, account)
    if account and found.owner and account != found.owner:
        raise CloudError(
            "changed", f"{instance} belongs to account {found.owner}, but the receipt names {account}", code="receipt"
        )
    shows = act.shown(found, receipt.get("action", ""), receipt.get("accepted", ""))
    return shows or Result(
        "failed", f"EC2 shows {found.state}: the bill goes on; see `costguard status` on the machine"
    )


def _forgotten(session: Session, instance: str, account: str) -> Result:
    """EC2 forgets a terminated instance after about an hour; other accounts never knew it."""
    try:
        mine = str(session.look("sts", "GetCallerIdentity").get("Account", ""))
    except CloudError as error:
        return Result(
            "unknown", f"EC2 does not know {instance}; unknown which account these credentials belong to ({error})"
        )
    if account and mine == account:
        text = f"closed: EC2 no longer knows {instance} in account {account}; it forgets a terminated instance after an hour"
        return Result("done", text)
    whose = f"the receipt names account {account}" if account else "the receipt names no account"
    return Result(
        "unknown", f"account {mine} does not know {instance}, and {whose}: ask with the credentials of that account"
    )
