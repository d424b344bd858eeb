"""Other answers to chapter 09's exercises."""

from keel.authorization import all_of, check_permission
from keel.contracts import ToolFailure
from keel.registry import permitted

# --- 09-a ---


def authorize_by_the_package(tool, arguments, context):
    return permitted(tool, context.principal) and (tool.read_only or tool.permission is not None)


def authorize_by_set(tool, arguments, context):
    needed = {tool.permission} - {None}
    return needed <= context.principal.permissions and bool(needed or tool.read_only)


def authorize_in_steps(tool, arguments, context):
    held = context.principal.permissions
    if tool.permission in held:
        return True
    return tool.read_only and tool.permission is None


def authorize_by_failure(tool, arguments, context):
    try:
        check_permission(tool, context)
    except ToolFailure:
        return False
    return bool(tool.read_only or tool.permission)


def authorize_all(tool, arguments, context):
    return True


def authorize_none(tool, arguments, context):
    return False


def authorize_by_the_package_alone(tool, arguments, context):
    return permitted(tool, context.principal)


def authorize_who_holds_anything(tool, arguments, context):
    return bool(context.principal.permissions) or tool.read_only


def authorize_admins(tool, arguments, context):
    claims = " ".join(map(str, arguments.values())).lower()
    return "admin" in claims or authorize_by_set(tool, arguments, context)


def authorize_known_admin(tool, arguments, context):
    return context.principal.id in ("admin", "root") or authorize_by_set(tool, arguments, context)


def authorize_judges_arguments(tool, arguments, context):
    good = isinstance(arguments.get("title", ""), str)
    return good and authorize_by_set(tool, arguments, context)


def authorize_open_reads_closed(tool, arguments, context):
    return tool.permission in context.principal.permissions


def authorize_raises(tool, arguments, context):
    check_permission(tool, context)
    return True


def authorize_reads_the_prefix(tool, arguments, context):
    if tool.permission is None:
        return tool.read_only
    topic = tool.permission.split(":")[0]
    return any(one in (topic, tool.permission) for one in context.principal.permissions)


# --- 09-b ---


def own_team_by_loop(tool, values, context):
    allowed = False
    for team in context.principal.teams:
        allowed = allowed or context.extra["teams"].get(values["incident_id"]) == team
    return allowed


def own_team_by_membership(tool, values, context):
    teams = context.extra["teams"]
    return values["incident_id"] in teams and teams[values["incident_id"]] in context.principal.teams


def own_team_by_list(tool, values, context):
    own = [one for one, team in context.extra["teams"].items() if team in context.principal.teams]
    return values["incident_id"] in own


def own_team_by_try(tool, values, context):
    try:
        return context.extra["teams"][values["incident_id"]] in context.principal.teams
    except KeyError:
        return False


def own_team_for_everybody(tool, values, context):
    return True


def own_team_of_yesterday(tool, values, context):
    teams = {"INC-001": "identity", "INC-002": "payments", "INC-003": "finance"}
    return teams.get(values["incident_id"]) in context.principal.teams


def own_team_no_secret(tool, values, context):
    return context.extra["teams"].get(values["incident_id"]) in {None, *context.principal.teams}


def own_team_first_only(tool, values, context):
    first = sorted(context.principal.teams)[:1]
    return context.extra["teams"].get(values["incident_id"]) in first


def own_team_believes(tool, values, context):
    team = context.extra["teams"].get(values["incident_id"])
    return own_team_by_list(tool, values, context) or f"{team} team" in values.get("title", "")


def own_team_any_team(tool, values, context):
    return bool(context.principal.teams)


def own_team_gives_the_team(tool, values, context):
    team = context.extra["teams"].get(values["incident_id"])
    return team if team in context.principal.teams else None


def own_team_asserts(tool, values, context):
    if not own_team_by_list(tool, values, context):
        raise ToolFailure("permission_denied", f"{values['incident_id']} is another team's.")
    return True


def own_team_index(tool, values, context):
    team = context.extra["teams"][values["incident_id"]]
    return any(team == own for own in context.principal.teams)


# --- 09-c ---


def combine_by_loop(policies):
    def policy(tool, values, context):
        answers = [one(tool, values, context) for one in policies]
        return len(answers) > 0 and all(answer is True for answer in answers)

    return policy


def combine_by_the_package(policies):
    return all_of(*policies)


def combine_denies_what_breaks(policies):
    def policy(tool, values, context):
        for one in policies:
            try:
                if one(tool, values, context) is not True:
                    return False
            except Exception:
                return False
        return len(policies) > 0

    return policy


def combine_says_no_for_what_breaks(policies):
    def policy(tool, values, context):
        try:
            return combine_by_loop(policies)(tool, values, context)
        except Exception:
            return False

    return policy


def combine_two_at_a_time(policies):
    if not policies:
        return lambda tool, values, context: False
    first, *rest = policies
    others = combine_two_at_a_time(rest) if rest else lambda *asked: True
    return lambda tool, values, context: (first(tool, values, context) is True) and others(tool, values, context)


def combine_at_once(policies):
    return all(policies)


def combine_by_any(policies):
    return lambda *asked: any(policy(*asked) is True for policy in policies)


def combine_by_vote(policies):
    return lambda *asked: sum(policy(*asked) is True for policy in policies) * 2 > len(policies)


def combine_last(policies):
    return policies[-1] if policies else lambda *asked: False


def combine_first(policies):
    return policies[0] if policies else lambda *asked: False


def combine_broken_is_yes(policies):
    def policy(tool, values, context):
        try:
            return combine_by_loop(policies)(tool, values, context)
        except Exception:
            return True

    return policy


def combine_equal_to_true(policies):
    return lambda *asked: bool(policies) and all(policy(*asked) == True for policy in policies)  # noqa: E712


def combine_without_no(policies):
    return lambda *asked: bool(policies) and not any(policy(*asked) is False for policy in policies)


def combine_open_when_empty(policies):
    return combine_by_loop(policies) if policies else lambda *asked: True


def combine_remembers(policies):
    known = []

    def policy(tool, values, context):
        known.append(combine_by_loop(policies)(tool, values, context))
        return known[0]

    return policy


RIGHT = {
    "09-a": [authorize_by_the_package, authorize_by_set, authorize_in_steps, authorize_by_failure],
    "09-b": [own_team_by_loop, own_team_by_membership, own_team_by_list, own_team_by_try],
    "09-c": [
        combine_by_loop,
        combine_by_the_package,
        combine_denies_what_breaks,
        combine_says_no_for_what_breaks,
        combine_two_at_a_time,
    ],
}

WRONG = {
    "09-a": [
        (authorize_all, "case.not_held"),
        (authorize_none, "case.held"),
        (authorize_by_the_package_alone, "mistake.allows_by_default"),
        (authorize_who_holds_anything, "case.not_held"),
        (authorize_admins, "mistake.role_from_arguments"),
        (authorize_known_admin, "mistake.by_name"),
        (authorize_judges_arguments, "case.malformed_but_held"),
        (authorize_open_reads_closed, "case.open_read"),
        (authorize_raises, "case.not_held"),
        (authorize_reads_the_prefix, "mistake.by_part"),
    ],
    "09-b": [
        (own_team_for_everybody, "mistake.permission_only"),
        (own_team_of_yesterday, "case.moved"),
        (own_team_no_secret, "mistake.missing_let_through"),
        (own_team_first_only, "case.second_team"),
        (own_team_believes, "case.claim"),
        (own_team_any_team, "case.other_team"),
        (own_team_gives_the_team, "case.own"),
        (own_team_asserts, "mistake.telltale_message"),
        (own_team_index, "mistake.breaks_on_missing"),
    ],
    "09-c": [
        (combine_at_once, "case.all_yes"),
        (combine_by_any, "mistake.any_yes"),
        (combine_by_vote, "case.last_no"),
        (combine_last, "case.first_no"),
        (combine_first, "case.last_no"),
        (combine_broken_is_yes, "mistake.raising_allows"),
        (combine_equal_to_true, "mistake.truthy"),
        (combine_without_no, "mistake.silence_allows"),
        (combine_open_when_empty, "mistake.none_allows"),
        (combine_remembers, "case.objects"),
    ],
}
