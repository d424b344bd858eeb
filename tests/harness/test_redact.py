"""What looks like a secret does not stay in content that is kept; and no text makes looking slow."""

import pytest

from keel.trace import HIDDEN, redact


@pytest.mark.parametrize(
    "text",
    [
        "password=zebra",
        "Authorization: Bearer zebra.zebra.zebra",
        "Authorization: Basic zebra==",
        "curl -H 'Authorization: Bearer sk-zebra'",
        "token = 'zebra and zebra'",
        '{"password": "one \\"zebra\\" more"}',
        "https://amira:zebra@desk.example/tickets",
        "bearer zebra",
        "-----BEGIN PRIVATE KEY-----\nzebra\n-----END PRIVATE KEY-----",
    ],
)
def test_the_usual_forms_are_hidden_whole(text):
    assert "zebra" not in redact(text) and HIDDEN in redact(text)


@pytest.mark.parametrize(
    "text",
    ["INC-001: login returns 502", "a basic question", "https://desk.example:8080/tickets", "see T-1, at 10:30"],
)
def test_what_is_no_secret_stays(text):
    assert redact(text) == text


def test_what_stands_under_a_secrets_name_is_hidden_at_any_depth():
    sent = {"login": [{"API_Key": ["zebra"], "user": "amira"}], "password": None}
    assert redact(sent) == {"login": [{"API_Key": HIDDEN, "user": "amira"}], "password": None}


@pytest.mark.parametrize(
    "part",
    [
        *(
            "password=",
            "token: ",
            "token='",
            "://a:",
            "a:",
            "bearer ",
            "sk-",
            "-----BEGIN ",
            "-----BEGIN PRIVATE KEY-----",
        ),
        *("token \t", "bearer" + " " * 50, 'token="\\', "://"),
    ],
)
def test_no_text_makes_looking_slow(part):
    """A pattern that looks at everything again for each place would not come to an end here."""
    redact("://" + part * (1_000_000 // len(part)))
