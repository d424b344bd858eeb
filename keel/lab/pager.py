"""The pager: a service outside of the harness that wakes the person on call, and a post at which it is used."""

from __future__ import annotations

import threading
from typing import Any

from pydantic import BaseModel

from .world import World


class Page(BaseModel):
    """One page: somebody was woken for this incident, with these words."""

    page_id: str
    incident_id: str
    message: str


class Pager:
    """The service that wakes the person on call. What was sent cannot be taken back.

    `sent` holds every page there was. The faults of its world make it misbehave: `pager` runs before
    a request arrives, and `pager:answer` when the page is out and nobody has been told yet. With
    `pager:late` a request is on its way, and arrives when `arrive` is called. `pager:look` runs before
    the service says whether an incident was paged. It judges nothing, and it is careless in the way of
    the desk's own tools: it reads the digits of every script, and does not mind a line break.
    """

    def __init__(self, world: World):
        self.world = world
        self.sent: list[Page] = []
        self._by_key: dict[str, Page] = {}
        self._on_its_way: list[tuple[str, str, str | None]] = []
        self._lock = threading.Lock()

    def send(self, incident_id: str, message: str, key: str | None = None) -> Page:
        """Wake whoever is on call for an incident. Under a key that was seen before: nothing but the page of that time.

        Raises ConnectionError where a request or an answer is lost, LookupError for no incident.
        """
        arguments = {"incident_id": incident_id, "message": message, "key": key}
        self._suffer("pager", arguments)
        if "pager:late" in self.world.faults:
            self._on_its_way.append((incident_id, message, key))
            self._suffer("pager:late", arguments)
        page = self._wake(incident_id, message, key)
        self._suffer("pager:answer", arguments)
        return page

    def look(self, incident_id: str) -> Page | None:
        """The first page for an incident, or None. Raises ConnectionError where the service does not answer."""
        self._suffer("pager:look", {"incident_id": incident_id})
        return next((page for page in self.sent if page.incident_id == incident_id), None)

    def arrive(self) -> None:
        """Let what is on its way arrive."""
        under_way, self._on_its_way = self._on_its_way, []
        for request in under_way:
            self._wake(*request)

    def _wake(self, incident_id: str, message: str, key: str | None) -> Page:
        read = f"INC-{int(incident_id.removeprefix('INC-')):03}"
        if read not in self.world.incidents:
            raise LookupError(f"there is no incident {read}")
        with self._lock:
            page = None if key is None else self._by_key.get(key)
            if page is None:
                page = Page(page_id=f"P-{len(self.sent) + 1}", incident_id=read, message=message)
                self.sent.append(page)
                if key is not None:
                    self._by_key[key] = page
        return page

    def _suffer(self, name: str, arguments: dict[str, Any]) -> None:
        fault = self.world.faults.get(name)
        if fault is not None:
            fault(arguments)
