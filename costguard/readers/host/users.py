"""Names of users, without asking a directory service, which may take long: this process must never wait."""

from costguard.readers.host.sense import SensePaths
from costguard.readers.host.text import read

_PASSWD_BYTES = 1 << 20


class Users:
    """Names by user id: from the file of users, else from systemd's list of those who are logged in."""

    def __init__(self, place: SensePaths) -> None:
        self._place = place
        self._names: dict[int, str] = {}

    def name(self, uid: int) -> str:
        """The name of this user; "uid 1234" where it cannot be found, which is asked again the next time."""
        if uid not in self._names:
            found = self._listed(uid) or self._logged_in(uid)
            if not found:
                return f"uid {uid}"
            self._names[uid] = found.replace("`", "'")  # in a chat it would look like a command of costguard's
        return self._names[uid]

    def _listed(self, uid: int) -> str:
        for line in _lines(f"{self._place.etc}/passwd"):
            fields = line.split(":")
            if len(fields) > 2 and fields[2] == str(uid):
                return fields[0]
        return ""

    def _logged_in(self, uid: int) -> str:
        lines = _lines(f"{self._place.run}/systemd/users/{uid}")
        return next((line[5:] for line in lines if line.startswith("NAME=")), "")


def _lines(path: str) -> list[str]:
    try:
        return read(path, _PASSWD_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return []
