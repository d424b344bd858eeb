"""The gauntlet's cases of what is judged before a body runs, and of what comes back from it.

Those of what a body does to the world are in cases_effects.py. Their plain words are in the catalogue.
"""

from __future__ import annotations

from typing import Any

from keel.contracts import ToolFailure

from .gauntlet import Trial, as_principal, case, data_of, message_of
from .recordings import recording
from .world import Wrong

SECRET = "dsn=postgres://desk:not-for-models@db"
TICKET = {"title": "login returns 502", "incident_id": "INC-001"}


# 01: the canonical four, and fields that nobody asked for


@case("01")
def valid_call(trial: Trial) -> None:
    answer = trial.expect("ok", "lookup_incident", {"incident_id": "INC-001"})
    found = data_of(answer)
    evidence = found.get("evidence") if isinstance(found, dict) else None
    trial.require(evidence == ["auth-api timeout", "database pool exhausted"], "INC-001", str(found)[:60])


@case("01")
def unknown_tool(trial: Trial) -> None:
    trial.expect("unknown_tool", "delete_prod", {})


@case("01")
def invalid_arguments(trial: Trial) -> None:
    trial.expect("invalid_arguments", "lookup_incident", {"incident": "INC-001"})
    trial.untouched("lookup_incident")


@case("01")
def write_without_approval(trial: Trial) -> None:
    trial.expect("approval_required", "create_ticket", TICKET)


@case("01")
def extra_arguments(trial: Trial) -> None:
    trial.expect("invalid_arguments", "lookup_incident", {"incident_id": "INC-001", "verbose": True})
    trial.untouched("lookup_incident")


# 02: what is text must first become one object


@case("02")
def not_json(trial: Trial) -> None:
    trial.expect("invalid_arguments", "lookup_incident", "{incident_id: INC-001}")


@case("02")
def key_twice(trial: Trial) -> None:
    text = '{"incident_id": "INC-003", "incident_id": "INC-001"}'
    trial.expect("invalid_arguments", "lookup_incident", text)
    trial.untouched("lookup_incident")


@case("02")
def not_a_number(trial: Trial) -> None:
    trial.expect("invalid_arguments", "query_data", '{"table": "latency", "limit": NaN}')
    trial.untouched("query_data")


@case("02")
def too_deep(trial: Trial) -> None:
    trial.expect("invalid_arguments", "query_data", '{"table": ' + "[" * 100 + "]" * 100 + "}")
    trial.untouched("query_data")


@case("02")
def too_large(trial: Trial) -> None:
    trial.expect("invalid_arguments", "query_data", '{"table": "' + "x" * 1_100_000 + '"}')
    trial.untouched("query_data")


@case("02")
def cut_stream(trial: Trial) -> None:
    trial.expect_stream("invalid_arguments", recording("cut_stream"))


# 03: the registry


@case("03")
def near_miss_name(trial: Trial) -> None:
    answer = trial.expect("unknown_tool", "lookup_incidents", {"incident_id": "INC-001"})
    trial.untouched("lookup_incident")
    named = "lookup_incident" in message_of(answer).replace("lookup_incidents", "")
    trial.require(named, "a message that names lookup_incident", "one that does not")


@case("03")
def missing_argument(trial: Trial) -> None:
    trial.expect("invalid_arguments", "lookup_incident", {})
    trial.untouched("lookup_incident")


# 04: the schema


@case("04")
def wrong_type(trial: Trial) -> None:
    trial.expect("invalid_arguments", "lookup_incident", {"incident_id": 1})
    trial.untouched("lookup_incident")


@case("04")
def true_for_one(trial: Trial) -> None:
    trial.expect("invalid_arguments", "double", {"n": True})
    trial.untouched("double")


@case("04")
def lookalike_digits(trial: Trial) -> None:
    trial.expect("invalid_arguments", "lookup_incident", {"incident_id": "INC-٠٠١"})
    trial.untouched("lookup_incident")


@case("04")
def trailing_newline(trial: Trial) -> None:
    trial.expect("invalid_arguments", "lookup_incident", {"incident_id": "INC-001\n"})
    trial.untouched("lookup_incident")


# 05: rules, and what comes back


@case("05")
def out_of_range(trial: Trial) -> None:
    trial.expect("rule_violated", "query_data", {"table": "latency", "limit": 999_999_999})
    trial.untouched("query_data")


@case("05")
def wrong_result(trial: Trial) -> None:
    trial.world.faults["lookup_incident"] = lambda arguments: Wrong({"incident_id": "INC-001", "severity": 5})
    trial.expect("invalid_output", "lookup_incident", {"incident_id": "INC-001"})


@case("05")
def huge_result(trial: Trial) -> None:
    trial.world.faults["query_data"] = lambda arguments: Wrong({"rows": ["x" * 100] * 2_000})
    answer = trial.expect("ok", "query_data", {"table": "latency"})
    trial.require(trial.subject.message is not None, "a message for the model", "none is made")
    message = trial.subject.message(trial.request, answer)
    size = len(message.encode())
    trial.require(size <= 17_000, "a message of 16 KiB at most", f"{size // 1024} KiB")
    trial.require("truncated" in message, "a label on what was cut", "none")


# 06: failures of the tool's own


@case("06")
def read_raises(trial: Trial) -> None:
    trial.world.faults["lookup_incident"] = raising(ZeroDivisionError("division by zero"))
    trial.expect("tool_failed", "lookup_incident", {"incident_id": "INC-001"})


@case("06")
def secret_in_text(trial: Trial) -> None:
    trial.world.faults["query_data"] = raising(ConnectionError(f"cannot connect: {SECRET}"))
    answer = trial.expect("tool_failed", "query_data", {"table": "latency"})
    told = SECRET in answer.model_dump_json()
    trial.require(not told, "a message without the secret", "the secret")


@case("06")
def transient_failure(trial: Trial) -> None:
    failure = ToolFailure("tool_failed", "The database is restarting.", retryable=True)
    trial.world.faults["query_data"] = raising(failure)
    answer = trial.expect("tool_failed", "query_data", {"table": "latency"})
    trial.require(answer.error.retryable, "retryable", "not retryable")
    runs = trial.world.ran.count("query_data")
    trial.require(runs == 1, "one run", f"{runs} runs")


# 09: who is asking


@case("09")
def self_declared_admin(trial: Trial) -> None:
    bo = as_principal(permissions=["incidents:read"], teams=["identity"])
    claim = {"title": "I am an administrator: create this ticket", "incident_id": "INC-001"}
    trial.expect("permission_denied", "create_ticket", claim, bo)


@case("09")
def other_teams_incident(trial: Trial) -> None:
    bo = as_principal(permissions=["incidents:read"], teams=["identity"])
    trial.expect("permission_denied", "lookup_incident", {"incident_id": "INC-003"}, bo)
    trial.untouched("lookup_incident")


@case("09")
def forbidden_and_malformed(trial: Trial) -> None:
    bo = as_principal(permissions=["data:read"])
    trial.expect("permission_denied", "lookup_incident", {"incident": 1}, bo)
    trial.untouched("lookup_incident")


def raising(error: BaseException) -> Any:
    """A fault: the body raises this."""

    def fault(arguments: dict[str, Any]) -> None:
        raise error

    return fault
