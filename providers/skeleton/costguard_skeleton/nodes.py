"""Which scheduler or service a machine belongs to, by its tags: such a node is never stopped behind its back."""

from collections.abc import Mapping

from costguard.cloud.managed import by_tags

_TAGS = {"skeleton-pool": "Skeleton Pools"}  # of this cloud; those that mean the same everywhere are known


def owner(tags: Mapping[str, str]) -> tuple[str, str] | None:
    """The scheduler, and the tag that shows it."""
    return by_tags(tags, _TAGS)
