"""Secrets in the shapes in which configurations hold them; «» encloses what must not be shown.

None of them ever opened anything.
"""

from __future__ import annotations

import re

SNIPPETS: dict[str, tuple[str, ...]] = {
    ".yaml": (
        # Names: nested, abbreviated, in several languages, above a list or a mapping.
        "api_key: «otter41hush»",
        "Authorization: «otter42hush»",
        "headers:\n  Authorization: Token «otter43hush»",
        "headers: {X-Api-Key: «otter44hush», Cookie: «sid=otter45hush»}",
        "api_tokens: [«otter46hush», «otter47hush»]",
        "smtp_pass: «otter48hush»",
        "MYSQL_PWD: «otter49hush»",
        "cluster: {storage_creds: «otter50hush»}",
        "redis: {auth: «otter51hush»}",
        "PGPASSWORD: «otter52hush»",
        "sshPrivateKeyPassphrase: «otter53hush»",
        "wandb: {apikey: «otter54hush»}",
        "hub_token: «otterhush»x",
        "secrets: {wandb: «otter55hush», judges: [«otter56hush»]}",
        "credentials:\n  user: bob\n  id: «771177»",
        "login_pin: «994499»",
        "auth_token: «88448844»",
        "密码: «otter57hush»",
        "judge: {访问令牌: «otter58hush»}",
        "tokens: {judge: «otter59hush»}",
        "author_token: «otter60hush»",
        "tokenizer_api_key: «otter61hush»",
        "max_tokens_key: «otter62hush»",
        "api_key: ${oc.env:API_KEY,«otter63hush»}",
        "judge_key: ${API_KEY:-«otter64hush»}",
        # Pairs of a name and its value.
        "env: [{name: API_KEY, value: «otter65hush»}, {name: SEED, value: 1}]",
        "env: [{key: API_KEY, value: «otter66hush»}]",
        "env: [{Key: DB_PWD, Value: «otter67hush»}]",
        "env: [{variable: HF_TOKEN, val: «otter68hush»}]",
        "headers: [[Authorization, «otter69hush»], [Accept, text/html]]",
        "env: [[DB_PASSWORD, «otter70hush»]]",
        "inputs: [{type: password, value: «otter71hush»}]",
        # Lists and command lines.
        "env: [DB_PASSWORD=«otter72hush», SEED=1]",
        "env: ['HF_TOKEN=«otter73hush»']",
        "args: [--judge, http, --api-key, «otter74hush», --lr, '1e-6']",
        "args: ['--api-key=«otter75hush»']",
        "command: python train.py --hub_token «otter76hush» --lr 1e-6",
        "command: WANDB_API_KEY=«otter77hush» python train.py",
        "command: 'curl -H \"Authorization: token «otter78hush»\" host'",
        "command: curl -u bob:«otter79hush» https://example.org",
        "command: sshpass -p «otter80hush» ssh host",
        "command: train +judge.api_key=«otter81hush» lr=1",
        "setup: export SMTP_PASS='«otter82hush»'",
        "setup: |\n  machine example.org login bob password «otter83hush»",
        "dockerfile: ENV DB_PWD «otter84hush»",
        # Texts that are configurations themselves.
        'judge: \'{"api_key": "«otter85hush»"}\'',
        'judge: \'{"key": "API_KEY", "value": "«otter86hush»"}\'',
        "judge: \"{'password': '«otter87hush»'}\"",
        "hadoop: <password>«otter88hush»</password>",
        "dotenv: |\n  SEED=1\n  DB_PASSWORD = «otter89hush»",
        # URLs and connection strings.
        "url: https://example.org/x?access_token=«otter90hush»&page=1",
        "url: https://example.org/x?page=1&sig=«otter91hush»",
        "url: https://b.example.org/x?X-Amz-Signature=«otter92hush»",
        "remote: https://bob:«otter93hush»@example.org/x.git",
        "remote: https://«otter94hush»@example.org/x.git",
        "tracker: postgresql+psycopg2://bob:«otter95hush»@db:5432/runs",
        "broker: redis://:«otter96hush»@cache:6379/0",
        "store: Server=db;Uid=bob;Pwd=«otter97hush»;",
        "store: AccountName=runs;AccountKey=«b3R0ZXI5OGh1c2g=»;EndpointSuffix=example.org",
        "broker: amqp bob:«otter99hush»@mq.example.org:5672",
        "notify: https://hooks.example.org/services/T012/B345/«pQ7rXz29LmKd84TvWy61NcBa»",
    ),
    ".json": (
        # Shapes of well-known services, under names that say nothing.
        '{"a": "«sk-proj-abcdefgh01234567ijkl»"}',
        '{"a": "«hf_abcdefghijklmnopqrstuvwxyz»"}',
        '{"a": {"b": "«ghp_abcdefghijklmnopqrstuvwxyz0123456789»"}}',
        '{"a": "«AKIAIOSFODNN7EXAMPLE»"}',
        '{"a": "«wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»"}',
        '{"a": "«eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl»"}',
        '{"a": "«xoxb-1234567890-abcdefghij»"}',
        '{"a": "«AIzaSyA-1234567890abcdefghijklmnopqrstu»"}',
        '{"a": "Bearer «otter100hush»"}',
        '{"a": "Basic «Ym9iOm90dGVyMTAxaHVzaA==»"}',
        '{"a": "-----BEGIN PRIVATE KEY-----\\n«MIIBVgIBADANBgkqhkiG9w0BAQEFAASCAUAwggE8»"}',
        # No more than high entropy.
        '{"a": "«0123456789abcdef0123456789abcdef01234567»"}',
        '{"a": ["x", "«f4b19c07d2e85a6311c09e7f4d2b8a50»"]}',
        '{"note": "use «kX9mP2vQ7wL4nR8tY6sD» for the judge"}',
        '{"path": "/etc/«Zm9vYmFyMTIzNDU2Nzg5MGFiY2RlZmdoaWprbG1u»"}',
        '{"bot": "7123456789:«AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1»"}',
        '{"a": "«3f9c1d8e-7b2a-4c6d-9e0f-5a1b8c7d2e34»"}',
        '{"a": "«Tr0ub4dor&3x»"}',
        '{"«sk-proj-zyxwvutsrq98765432»": true}',
        '{"«kQ3vN8xR2mT7wL5pY9sB»": {"lr": 1}}',
    ),
    ".toml": (
        'hf_tokens = ["«otter102hush»"]',
        '[judge]\nsecret_key = "«otter103hush»"',
        '[[env]]\nname = "DB_PASSWD"\nvalue = "«otter104hush»"',
        "[database]\npin = «556655»",
        'url = "https://example.org/hook?password=«otter105hush»"',
    ),
}
"""Suffix -> configuration files."""

_MARKED = re.compile("«(.+?)»")

CASES = [
    (suffix, re.sub("[«»]", "", snippet), tuple(_MARKED.findall(snippet)))
    for suffix, snippets in SNIPPETS.items()
    for snippet in snippets
]
"""(suffix, configuration, the secrets in it)."""
