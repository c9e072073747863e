"""Secrets do not reach people, logs and records: one place hides them."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.masking import mask, mask_all, secrets_of

SECRETS = [
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.S3CRET", "AccountKey=S3CRET==", "mysql -pS3CRET", "Cookie: session=S3CRET", "sshpass -p S3CRET",
]  # fmt: skip

HOOKS = [
    "https://hooks.slack.com/services/T0S3CRET/B0S3CRET/S3CRETxyz",
    "https://discord.com/api/webhooks/1234567890/S3CRET",
    "https://example.webhook.office.com/webhookb2/S3CRET@S3CRET/IncomingWebhook/S3CRET/x",
    "https://hc-ping.com/S3CRET",
    "https://bucket.s3.amazonaws.com/key?X-Amz-Signature=S3CRET",
    "https://api.telegram.org/bot1:S3CRET/sendMessage",
    "http://127.0.0.1:8080/S3CRET",
    "http://[::1]:8080/S3CRET",
]


@pytest.mark.parametrize("address", HOOKS)
@pytest.mark.parametrize(
    "said",
    [
        "{}", "({}).", "'{}',", '{{"url":"{}"}}', "<{}>", "cannot reach {}: timed out", "see {}, then", "\t{}\n{}", "url={}",
    ],
)  # fmt: skip
def test_of_an_address_only_scheme_and_host_stay(address: str, said: str) -> None:
    """Whatever stands around it; the host says to whom something was sent."""
    shown = mask(said.format(address, address))
    assert "S3CRET" not in shown
    assert address.split("/")[2] in shown
    assert mask(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "https://user:S3CRET@example.org/x",
        "https://user:S3/S3CRET@example.org/x",
        "https://S3CRET@example.org",
        "https://example.org/?token=S3CRET&x=1",
        "https://example.org?S3CRET",
        "https://example.org#S3CRET",
        "HTTPS://EXAMPLE.org/S3CRET",
        r"https:\/\/hooks.slack.com\/services\/S3CRET",
        "https%3A%2F%2Fhooks.slack.com%2Fservices%2FS3CRET",
        "hooks.slack.com/services/T0/B0/S3CRETkey0123456789",
        "discord.com/api/webhooks/1/S3CRET",
        "slack://S3CRET/S3CRET/S3CRET",
        "slack://S3CRET@host",
        "ntfy://S3CRET",
        "postgres://me:S3CRET@db/x",
        "Authorization: Bearer S3CRET",
        'authorization: "Basic S3CRET"',
        "'Authorization': 'Bearer S3CRET'",
        "got Bearer S3CRET",
        "password: S3CRET",
        'password="S3CRET S3CRET"',
        "{'client_secret': 'S3CRET'}",
        "COSTGUARD_API_TOKEN=S3CRET",
        "call --api-token S3CRET now",
        "['call', '--password', 'S3CRET']",
        "> POST /services/T0/B0/S3CRET HTTP/1.1",
        "* [HTTP/2] [1] [:path: /services/S3CRET]",
        "HTTPSConnectionPool(host='x', port=443): Max retries exceeded with url: /services/S3CRET (Caused by",
        "token xoxb-S3CRET123456 is not valid",
        "-----BEGIN RSA PRIVATE KEY-----\nS3CRET\nS3CRET\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nS3CRET\n",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJTM0NSRVQifQ.S3CRET_S3CRET-x",
        "got (eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJTM0NSRVQifQ.S3CRET).",
        "eyJhdXRocyI6eyJTM0NSRVQiOnt9S3CRET==",
        "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=S3CRET==;EndpointSuffix=core.windows.net",
        "Endpoint=sb://x/;SharedAccessKeyName=k;SharedAccessKey=S3CRET=",
        "mysql -pS3CRET -u root shop",
        "+ mysqldump -h db -u root -pS3CRET shop",
        "['mysql', '-u', 'root', '-pS3CRET']",
        "sshpass -p S3CRET ssh host",
        "sshpass -pS3CRET ssh host",
        "redis-cli -h cache -a S3CRET ping",
        "curl -s -u me:S3CRET host/x",
        "Cookie: session=S3CRET",
        "Cookie: a=1; session=S3CRET; theme=dark",
        "< Set-Cookie: sid=S3CRET; Path=/; HttpOnly",
        "{'cookie': 'sid=S3CRET'}",
        "nvapi-S3CRET0123456789",
        "key AIzaS3CRET0123456789",
        "passwd S3CRET",
        "login: password S3CRET done",
        "The Password is S3CRET.",
        "new passphrase was h4-S3CRET",
        "AWS_SECRET_ACCESS_KEY S3CRET/x",
        "DB_PASSWORD S3CRET",
        "token 0123456789abS3CRET is not valid",
        "api key is 0123456789abS3CRET",
    ],
)
def test_secrets_are_masked(text: str) -> None:
    """What looks like a secret is not shown."""
    assert "S3CRET" not in mask(text)
    assert "***" in mask(text)


@pytest.mark.parametrize(
    "text",
    [
        "machine ftp.example.org login ann password hunter", "user ann passwd hunter", "username=ann, password hunter",
        "passwd: hunter", "passwd = hunter", "Login ann PASSWORD hunter done",
    ],
)  # fmt: skip
def test_a_password_that_is_a_plain_word_is_masked_where_its_place_says_so(text: str) -> None:
    """After its name and a sign, or after a user's: `passwd root` alone is a command."""
    assert "hunter" not in mask(text)


@pytest.mark.parametrize(
    "text",
    [
        "user ann password expired", "login ann: password authentication failed", "user ann passwd is locked",
        "--signal SIGTERM", "no token bucket", "key = grace=5m", "the token was refused", "https://example.org:8080 is silent",
        "https://example.org/", "allowed: a URL that begins with http:// or https://, or nothing",
        "/etc/costguard/config.toml is not TOML", "Microsoft.Compute/virtualMachines/deallocate/action is missing",
        "mysql -p asks for it", "mysql -P3306 --port 3306 -h db", "mysqld is up; ps -p1234 says so", "cookie", "no cookie was set",
        "the account key is old", "docker run -u 1000:1000 x", "ssh -p2222 host", "mkdir -pv /x", "eyJ", "curl -u me host", "Cookie:",
        "the password was refused", "password for ann@host", "its password would go over the network in cleartext", "passwd root",
        "password authentication failed for user ann", "no password was given", "pwd /home/ann", "pwd -P", "the token has expired",
        "token 12 of 4096", "the secret team-2027-01 is not there", "MAX_KEY is not set", "a secret of 16 characters or more",
        "an error at 10:30, in 5/8 of all cases", "arn:aws:ec2:eu-west-1:1:instance/i-0123456789abcdef0", "end it: kill 17",
    ],
)  # fmt: skip
def test_other_text_stays(text: str) -> None:
    """What is no secret is not hidden: errors must stay readable."""
    assert mask(text) == text


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("curl", "--api-token", "S3CRET", "-v"), ["curl", "--api-token", "***", "-v"]),
        (("curl", "-u", "me:S3CRET", "https://h/S3CRET"), ["curl", "-u", "***", "https://h/***"]),
        (("sudo", "-u", "ann", "save"), ["sudo", "-u", "ann", "save"]),
        (("curl", "-H", "X-Api-Key: S3CRET"), ["curl", "-H", "X-Api-Key: ***"]),
        (("/usr/bin/mysql", "-pS3CRET", "-P3306"), ["/usr/bin/mysql", "-p***", "-P3306"]),
        (("ssh", "-p2222", "host"), ["ssh", "-p2222", "host"]),
        (("curl", "-H", "Cookie: sid=S3CRET"), ["curl", "-H", "Cookie: ***"]),
    ],
)
def test_the_arguments_of_a_program_are_masked(arguments: tuple[str, ...], shown: list[str]) -> None:
    """`--token X` hides X, in a list of arguments too."""
    assert mask_all(arguments) == shown


@pytest.mark.parametrize(
    "said",
    [
        "404 for /services/T0/S3CRETkey",
        "no hook S3CRETkey",
        "failed: services/T0/S3CRETkey?",
        "it was given S3CRETflag",
    ],
)
def test_what_a_program_was_given_is_hidden_in_what_it_says(said: str) -> None:
    """It may print any part of its address or of a secret argument, in a form of its own."""
    argv = ["notify", "https://hooks.slack.com/services/T0/S3CRETkey", "--token", "S3CRETflag"]
    shown = mask(said, secrets_of(argv))
    assert "S3CRET" not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    "text",
    [
        "mysql -u " * 10_000,
        "eyJa." * 20_000,
        "curl " * 20_000,
        "cookie" * 20_000,
        "a." * 50_000,
        "a" * 100_000,
        "token" * 20_000,
        "a-" * 50_000,
        "https://" * 10_000,
        "x/" * 50_000,
    ],
)
def test_no_text_takes_long(text: str) -> None:
    """A foreign program or server chooses it."""
    began = time.process_time()
    mask(text)
    assert time.process_time() - began < 2.0


@pytest.mark.parametrize("given", [
    "mailto://USER:longPASSWORD99c4n4ry@smtp.example.org?from=a@example.org&to=b@example.org",
    "mailto://USER:longPASSWORD99c4n4ry@smtp.example.org/?from=a@example.org&to=b@example.org",
    "mailto://smtp.example.org?user=u&pass=longPASSWORD99c4n4ry&from=a@example.org",
])  # fmt: skip
def test_the_password_of_a_known_address_is_hidden_wherever_its_query_has_an_at(given: str) -> None:
    """A mail server that repeats it in its answer tells nobody."""
    assert "PASSWORD99" not in mask("535 bad password longPASSWORD99c4n4ry", [given])


ORDINARY = re.findall(
    r"\S+",
    "the account key of storage session cookie cookies mysql mariadb port process basic bearer's author eye eyJ Volume saved to "
    "/mnt/data/run-17/checkpoint-000123.pt in 4.2 s at 10:30:00, GPU-5f1c2a77-0000-1111-2222-333344445555 and 0000:01:00.0 "
    "i-0123456789abcdef0 sha256 (5/8) -p -P3306 --port -a -u --user ann 1000:1000 key= session=7 exit=0 a.b.c "
    "2026-11-23T09:00:00Z e3b0c44298fc1c14 nvidia-smi pid 4711 100% [ok] done.",
)
"""What programs print that is no secret."""


@given(st.lists(st.sampled_from(ORDINARY), max_size=30), st.sampled_from([" ", ", ", "\n", "  ", "\t"]))
def test_ordinary_words_stay_in_any_order(words: list[str], between: str) -> None:
    """Whatever stands beside them: who reads why a hook failed reads all of it."""
    text = between.join(words)
    assert mask(text) == text


@given(
    st.lists(st.sampled_from(ORDINARY), max_size=8),
    st.lists(st.sampled_from(ORDINARY), max_size=8),
    st.sampled_from(SECRETS),
)
def test_a_secret_is_hidden_wherever_it_stands(before: list[str], after: list[str], secret: str) -> None:
    """Words around it neither save it nor fall with it."""
    text = "\n".join((" ".join(before), secret, " ".join(after)))
    assert "S3CRET" not in mask(text)


@pytest.mark.parametrize(
    "hint",
    [
        "`costguard permissions aws --secret team` prints the policy and the commands",
        "`costguard permissions azure --secret vault1/team-urls` prints how",
        "see `aws secretsmanager describe-secret --region eu-west-1 --secret-id arn:aws:secretsmanager:eu-west-1:1:secret:team`",
    ],
)
def test_a_command_to_type_keeps_the_name_of_the_secret(hint: str) -> None:
    """It is where the secret is kept, not what it says; also where an answer is masked once more."""
    assert mask(hint) == hint
    assert mask(mask(f"token=c4n4ry77 {hint}")) == f"token=*** {hint}"


@pytest.mark.parametrize(
    "text", ["tool --secret c4n4ry77", "costguard permissions aws --token c4n4ry77", "-----BEGIN PRIVATE KEY-----\n--secret-id x\nc4n4ry77"]
)  # fmt: skip
def test_another_command_hides_its_secret(text: str) -> None:
    """Only a name of ours is none; and what is set aside ends nothing that is hidden."""
    assert "c4n4ry77" not in mask(text)
