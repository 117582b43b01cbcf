"""What secrets look like in texts: one form for each way to write them.

A form is looked for only where one of its hints stands in the text. The hint of a provider's key is the prefix of the
key itself, so that no key can be missed by a wrong hint. The prefixes and lengths are facts that secret scanners
publish; lengths are lower bounds here, because a key that is cut short is still no text to show.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

GONE = "[redacted]"

SECRET_NAME = (
    r"(?:passw(?:or)?d\d{0,2}|(?<=[_-])token|(?<=_)pass|(?:(?<![A-Za-z])|(?-i:(?<=[a-z0-9])(?=[A-Z])))(?:"
    r"(?:api|access|account|app|auth|client|db|database|encryption|license|master|priv|private|secret|service|shared[_-]?access"
    r"|signing|storage|subscription|webhook)[_-]?key(?:[_-]?(?:id|base))?"
    r"|secret[_-]?access[_-]?key|(?:client|app|consumer|webhook|shared|signing|api)?[_-]?secret"
    r"|(?:access|api|app|auth|bearer|bot|csrf|deploy|id|private|refresh|session)[_-]?token"
    r"|x-[\w-]{0,40}(?:key|token)|authorization|passphrase|pwd|credentials?|signature|sig))"
)
"""The name of a value that is a secret whatever it looks like, as part of a pattern without regard to case."""

_QUOTE = r"\\{0,2}['\"]"
_IS = (
    rf"(?:(?:{_QUOTE})?\]?\s{{0,10}}(?:=>|:=|==|::|[:=]|%3[DdAa])\s{{0,10}}"
    rf"|{_QUOTE}\s{{0,3}},\s{{0,3}}b?{_QUOTE}value{_QUOTE}\s{{0,3}}:\s{{0,3}}(?={_QUOTE})"
    rf"|{_QUOTE}\s{{1,3}}value\s{{0,3}}=\s{{0,3}}(?={_QUOTE})"
    rf"|{_QUOTE}\s{{0,3}},\s{{0,3}}(?=b?{_QUOTE}))"
)
"""What stands between a name and its value: in headers, addresses, JSON, XML, tuples, and as Python shows them."""
_NO_VALUE = (
    r"(?!\[redacted|(?:is|was|are|has|have|must|may|can|cannot|should|not|no|too|the|an?|and|or|for|of|in|required"
    r"|missing|invalid|expired|empty|none|null|true|false|unknown|wrong|field|value)(?=[\s.,;:!?)\]}'\"]|$))"
)
"""What follows a name in a sentence about it, or in a text that has been looked through already."""
_VALUE = (
    rf"(?:(b?)({_QUOTE}){_NO_VALUE}(?:(?!\4)(?:\\.|[^\n])){{1,1000}}"
    rf"|(?!b?{_QUOTE}){_NO_VALUE}(?:(?:bearer|basic|token|digest)\s{{1,3}})?[^\s'\"\\,;&<>)}}\]]+)"
)
"""A value with quotes (groups 3 and 4) up to the closing one; one without, up to a space or what may follow a value."""
_SCHEMES = r"(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|oracle|clickhouse|ldaps?|smtps?|ftp)"


class Form(NamedTuple):
    """One form of secrets; `hints` are in small letters, and one of them stands in each text that has the form."""

    name: str
    hints: tuple[str, ...]
    pattern: str
    instead: str | Callable[[re.Match[str]], str] = GONE


def _gone_if_dotted(found: re.Match[str]) -> str:
    return GONE if "." in found[0] else found[0]


WRITTEN_FORMS = (
    Form(
        "private key",
        ("private key",),
        r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    ),
    Form("PuTTY key", ("putty-user-key-file",), r"(?s)PuTTY-User-Key-File-\d.*?(?:Private-MAC: \w+|\Z)"),
    Form("user in an address", ("://",), r"(?<=://)[^\s/'\"<>]{1,500}@", f"{GONE}@"),
    Form(
        "password with a slash in an address",
        ("://",),
        r"(?<=://)(?!\[redacted)[^\s/:@'\"<>]{0,100}:(?!\d{1,5}/)[^\s'\"<>@]{1,200}@",
        f"{GONE}@",
    ),
    Form(
        "password with spaces in an address of a database",
        ("://",),
        rf"(?i)\b({_SCHEMES}(?:\+\w{{1,20}})?://)(?!\[redacted)[^\s/:@'\"<>]{{0,100}}:(?!\d{{1,5}}/)[^\n@]{{1,200}}@",
        rf"\1{GONE}@",
    ),
    Form("cookie", ("cookie",), rf"(?i)\b((?:set-)?cookie{_IS}b?(?:{_QUOTE})?)[^\n'\"]+", rf"\1{GONE}"),
    Form(
        "named value",
        ("key", "token", "auth", "pass", "pwd", "secret", "credential", "sig"),
        rf"(?i)({SECRET_NAME})({_IS}){_VALUE}",
        rf"\1\2\3\4{GONE}",
    ),
    Form(
        "XML element",
        ("</",),
        rf"(?i)(<[\w:.-]{{0,60}}?{SECRET_NAME}(?:\s[^<>]{{0,200}})?>)(?!\[redacted)[^<]+",
        rf"\1{GONE}",
    ),
    Form(
        "option of a command",
        ("--",),
        rf"(?i)(--[\w-]{{0,40}}?(?:{SECRET_NAME}|(?<=-)(?:token|pass))\s{{1,3}})(?!-|\[redacted)\S+",
        rf"\1{GONE}",
    ),
    Form(
        "password joined to an option",
        ("-p",),
        r"((?:^|\s)-p)(?=\S{0,60}\d)(?=\S{0,60}[A-Za-z])[^\s'\"-][^\s'\"]{7,}",
        rf"\1{GONE}",
    ),
    Form(
        "user of a command",
        ("-u", "--user"),
        r"((?:^|\s)(?:-u|--user)[\s=]{0,3}['\"]?[^\s:'\"]{1,100}:)(?!\[redacted)[^\s'\"]+",
        rf"\1{GONE}",
    ),
    Form(
        "password in a sentence",
        ("pass", "secret", "token"),
        r"(?i)\b((?:passw(?:or)?d|passphrase|secret|token)\s(?:is|was)\s{1,3}['\"]?)(?=\S{0,60}\d)[^\s'\"]{6,}",
        rf"\1{GONE}",
    ),
    Form(
        "parameter of an address",
        ("?", "&"),
        r"(?i)([?&](?:key|token|auth|jwt|pass)=)(?!\[redacted)[^&#\s'\"<>]+",
        rf"\1{GONE}",
    ),
    Form("code in an address", ("?code=", "&code="), r"(?i)([?&]code=)(?!\[redacted)[^&#\s'\"<>]{10,}", rf"\1{GONE}"),
    Form(
        "token",
        ("token", "auth"),
        rf"(?i)\b(token|auth)({_IS}\\?['\"]?)(?=[\w.~+/=-]{{0,60}}\d)[\w.~+/=-]{{12,}}",
        rf"\1\2{GONE}",
    ),
    Form(
        "scheme of a header",
        ("bearer", "basic", "token"),
        r"(?i)\b(bearer|basic|token)\s{1,3}(?=[\w.~+/-]{0,60}[\d=])[\w.~+/=-]{8,}",
        rf"\1 {GONE}",
    ),
    # A JSON web token. What has no dot is none, but is taken as a whole, or each `eyJ` in it would be a beginning.
    Form("JSON web token", ("eyj",), r"\beyJ[\w-]{8,}(?:\.[\w-]{4,}(?:\.[\w-]*)?)?", _gone_if_dotted),
    Form("Slack hook", ("hooks.slack.com/",), r"(hooks\.slack\.com/\w{1,20}/)[\w/+-]+", rf"\1{GONE}"),
    Form("Discord hook", ("/api/webhooks/",), r"(/api/webhooks/)\d+/[\w-]+", rf"\1{GONE}"),
    Form("Teams hook", (".webhook.office.com/",), r"(\.webhook\.office\.com/)[\w@/-]+", rf"\1{GONE}"),
    Form("Telegram bot", (":aa",), r"(?<!\d)\d{6,16}:AA[\w-]{30,}"),
    Form("Azure client secret", ("q~",), r"(?<![\w~.])[\w~.]{3}\dQ~[\w~.-]{31,34}"),
    Form("Mailchimp", ("-us",), r"(?<!\w)[0-9a-f]{32}-us\d{1,2}\b"),
    Form("Terraform", (".atlasv1.",), r"(?<!\w)\w{14}\.atlasv1\.[\w=-]{40,}"),
    Form("MaxMind", ("_mmk",), r"(?<!\w)[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b"),
)  # fmt: skip

_WORD, _LONG, _HEX = r"[\w-]{16,}", r"[\w=.+/-]{30,}", r"[0-9A-Fa-f]{24,}"
_PREFIXES = (
    (
        r"[\w-]{8,}",
        "sk- sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ pk_live_ pk_test_ xoxa- xoxb- xoxe- xoxe. "
        "xoxo- xoxp- xoxr- xoxs- xapp- whsec_",
    ),
    (
        _WORD,
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- gldt- glft- glffct- glsoat- glrt- glcbt- glimt- glptt- "
        "glagent- gloas- GR1348941 hf_ api_org_ npm_ pypi- gsk_ xai- pplx- r8_ hvs. hvb. lin_api_ lin_oauth_ "
        "ntn_ tvly- nvapi- pcsk_ csk- lsv2_ sbp_ napi_ dckr_pat_ figd_ nfp_ tskey- CCIPAT_ CFPAT- bkua_ phx_ "
        "phc_ ATATT3 ATBB AGE-SECRET-KEY-1 sm_aat_ sm_pat_ sm_sat_ sq0atp- sq0csp- ya29. GOCSPX- tfp_ pnu_ "
        "NRAK- NRII- NRJS- fo1_ dp.pt. dt0c01. p8e- HRKU-AA dop_v1_ doo_v1_ dor_v1_",
    ),
    (
        _LONG,
        "fm1a_ fm1r_ fm2_ pscale_tkn_ pscale_oauth_ pscale_pw_ glc_ glsa_ sntrys_ sntryu_ ops_eyJ ABSK "
        "bedrock-api-key- duffel_live_ duffel_test_ fio-u- sha256~ tk-us- AQVN EAAC EAAM EAAA CLOJARS_ rdme_",
    ),
    (
        _HEX,
        "dapi shpat_ shpca_ shppa_ shpss_ shippo_live_ shippo_test_ rubygems_ pul- xkeysib- xsmtpsib- key- "
        "PMAK- sgp_ SK",
    ),
    (r"[0-9A-Z]{16,}", "AKIA ASIA ABIA ACCA A3T"),
    (r"[\w-]{30,}", "AIza"),
    (r"[A-Za-z0-9]{20,}", "LTAI ico- fw_ rnd_"),
    (r"[A-Z0-9]{26}\b", "API-"),
    (r"[A-Za-z0-9]{40,}", "secret_ AKCp cmVmd EZAK EZTK"),
    (r"[\w-]{8,}\.[\w-]{8,}", "SG."),
    (r"[A-Za-z0-9]{14}\.[0-9a-f]{32,}", "pat"),
    (r"[\w-]{22}\.\w{24}\.\w{20}", "pat. sat."),
    (r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}", "re_"),
    (r"(?:TEST-)?[0-9a-h]{12,}", "FLWSECK_ FLWSECK-"),
    (r"\w{6}-[\w-]{11,12}(?:-\w{5}){3}", "A3-"),
    (r"[0-9a-f]{24}-[0-9a-f]{40,}", "v1.0-"),
    (r"[\w=-]{1,200}\.[\w-]{80,}", "t1."),
    (r"(?:sandbox|development|production)-[0-9a-f-]{36}", "access-"),
)
"""What follows the prefix of a provider's keys, and the prefixes that it follows."""

KEY_FORMS = tuple(
    Form(prefix, (prefix.lower(),), rf"(?<![A-Za-z0-9]){re.escape(prefix)}{rest}")
    for rest, prefixes in _PREFIXES
    for prefix in prefixes.split()
)

FORMS = (*WRITTEN_FORMS, *KEY_FORMS)
HINTS = tuple((hint, form) for form in FORMS for hint in form.hints)
"""Each hint with its form, the hints of a form one after the other."""
