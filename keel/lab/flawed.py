"""A harness with flaws, for chapter 14: it has all the guards, and most of them in the wrong place."""

from __future__ import annotations

from keel.authorization import check_permission, check_policies
from keel.contracts import ToolFailure
from keel.rules import check_rules
from keel.validation import validate


class FlawedHarness:
    def __init__(self, tool):
        self.tool, self.agreed = tool, set()

    def approve(self, arguments):
        self.agreed.add((self.tool.name, arguments["incident_id"]))

    def handle(self, arguments, context):
        try:
            check_permission(self.tool, context)
            check_policies(self.tool, arguments, context)
            incident_id = arguments["incident_id"].strip().upper()
            values = validate(self.tool, {**arguments, "incident_id": incident_id})
            check_rules(self.tool, values, context)
            if (self.tool.name, incident_id) not in self.agreed:
                return "approval_required"
            self.tool.call(values, context)
            return "ok"
        except ToolFailure as failure:
            return failure.error.code
