"""Pay, as pay for a year: of what boards name as numbers, and of what texts state."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec

_PER_YEAR = (("hour", 2_080), ("day", 260), ("dai", 260), ("week", 52), ("month", 12), ("year", 1), ("annual", 1))


def yearly(amount: object, interval: str | None) -> float | None:
    """An amount for an interval ("1 YEAR", "per-hour-wage", …) as one for a year; None if either is unclear."""
    number = _number(amount)
    if number is None:
        return None
    said = (interval or "year").lower()
    for word, times in _PER_YEAR:
        if word in said:
            return number * times
    return None


def _number(amount: object) -> float | None:
    if isinstance(amount, str):
        try:
            amount = float(re.sub(r"[,\s]", "", amount))
        except ValueError:
            return None
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        return None
    try:
        number = float(amount)
    except OverflowError:  # JSON may have a number of any length
        return None
    return number if math.isfinite(number) and number > 0 else None


class Pay(msgspec.Struct, frozen=True):
    """What a text states as pay, for a year."""

    lowest: float
    highest: float
    currency: str


_CURRENCY = (
    r"(?:(?:us|cad?|aud?|nz|s)?\s?\$|usd|cad|aud|nzd|sgd|mxn|brl|r\$|clp|cop|ars|pen|£|gbp|€|eur|euros?|chf"
    r"|pln|zł|sek|nok|dkk|czk|inr|₹|jpy|¥|krw|hkd|twd)"
)
_NUMBER = r"\d{1,3}(?:[.,' \u00a0\u202f]\d{3})+(?:[.,]\d{1,2})?|\d+(?:[.,]\d{1,2})?"


def _amount(end: int) -> str:
    return (
        rf"(?P<before{end}>(?:{_CURRENCY}\s*){{0,2}})(?P<number{end}>{_NUMBER})\s?(?P<thousand{end}>k\b)?\s*(?P<after{end}>{_CURRENCY}(?!\w))?"
        rf"(?:\s*(?:per|/|an?|por|al|pro|par)?\s*(?P<unit{end}>{_INTERVALS})\b)?"
    )


_INTERVALS = (
    r"hour(?:ly)?|hr|hora|stunde|heure|day|daily|d[íi]a|tag|jour|week(?:ly)?|semana|month(?:ly)?|mes|m[êe]s|monat"
    r"|mois|mensual\w*|year(?:ly)?"
    r"|yr|annum|annual(?:ly)?|año|ano|jahr|an|anual\w*|p\.?a\.?"
)
_PAY = re.compile(rf"(?<![\w.,]){_amount(1)}(?:\s*(?:-|–|—|to|and|bis|a|à|hasta|up to)\s*{_amount(2)})?", re.IGNORECASE)
_ABOUT_PAY = re.compile(
    r"salar(?:y|io|ies)|compensation|\bpay(?:s|ing)?\b|wage|base|\bote\b|on[\s-]target|earnings|remunera|sueldo"
    r"|gehalt|verg[üu]tung|salaire|r[ée]mun[ée]ration"
    r"|hourly rate|per hour|per year|per annum|annual|brutto|bruto|brut\b|package|gross|\brate\b",
    re.IGNORECASE,
)
_NOT_PAY = re.compile(
    r"revenue|funding|raised|valuation|budget|sales of|customers|users|deals?\b|bookings|portfolio|million|billion"
    r"|bonus of|stipend|allowance|reimburse|incentive target"
    r"|\baum\b|arr\b|donat|invest",
    re.IGNORECASE,
)
_ISO: Mapping[str, str] = MappingProxyType({
    "$": "USD", "us$": "USD", "usd": "USD", "c$": "CAD", "ca$": "CAD", "cad": "CAD", "a$": "AUD", "au$": "AUD",
    "nz$": "NZD", "s$": "SGD", "r$": "BRL",
    "£": "GBP", "€": "EUR", "euro": "EUR", "euros": "EUR", "zł": "PLN", "₹": "INR", "¥": "JPY",
})  # fmt: skip
_HOURLY = ("hour", "hr", "hora", "stunde", "heure")
_UNITS = (
    (_HOURLY, 2_080),
    (("day", "dail", "dí", "di", "tag", "jour"), 260),
    (("week", "semana"), 52),
    (("mes", "mê", "mens", "mon", "moi"), 12),
)
_LEAST, _MOST = 5_000, 3_000_000
_NEARBY, _LONGEST_TEXT = 160, 60_000
_LEAST_PER_HOUR, _MOST_PER_HOUR = 4, 500


def stated_in(text: str | None) -> Pay | None:
    """The pay that a text states, for a year: of several ranges the lowest and the highest of the first currency."""
    found: list[Pay] = []
    for line in (text or "")[:_LONGEST_TEXT].splitlines():
        if _ABOUT_PAY.search(line) or any(sign in line for sign in "$£€"):
            found += _of_line(line)
    same = [one for one in found if one.currency == found[0].currency]
    return Pay(min(one.lowest for one in same), max(one.highest for one in same), same[0].currency) if same else None


def _of_line(line: str) -> Iterator[Pay]:
    for match in _PAY.finditer(line):
        signs = [
            match[name] for name in ("before1", "after1", "before2", "after2") if match[name] and match[name].strip()
        ]
        if not signs:
            continue
        around = line[max(0, match.start() - _NEARBY) : match.end() + _SOON]
        if not _ABOUT_PAY.search(around) or _NOT_PAY.search(line[max(0, match.start() - _SOON) : match.end() + _SOON]):
            continue
        unit = (
            match["unit2"] or match["unit1"] or _unit_before(line[max(0, match.start() - _NEARBY) : match.start()])
        ).lower()
        ends = [
            _value(match[f"number{end}"], match[f"thousand{end}"] or (match["thousand2"] if end == 1 else None))
            for end in (1, 2)
            if match[f"number{end}"]
        ]
        times = next((times for words, times in _UNITS if unit.startswith(words)), 1)
        if (
            times == 1
            and not unit
            and all(_LEAST_PER_HOUR <= value <= _MOST_PER_HOUR for value in ends)
            and re.search("hour", around, re.IGNORECASE)
        ):
            times = 2_080
        yearly_ends = sorted(value * times for value in ends)
        if yearly_ends[0] >= _LEAST and yearly_ends[-1] <= _MOST * (
            100 if _iso(signs) in ("COP", "CLP", "KRW", "JPY", "ARS") else 1
        ):
            yield Pay(yearly_ends[0], yearly_ends[-1], _iso(signs))


_SOON = 40


def _unit_before(text: str) -> str:
    said = re.findall(r"hourly|monthly|weekly|daily|annual|yearly|per hour|per month", text, re.IGNORECASE)
    return said[-1].lower().removeprefix("per ") if said else ""


def _iso(signs: list[str]) -> str:
    """The code among the signs of an amount; else the one that its sign stands for most."""
    words = [word for sign in signs for word in re.findall(r"[^\W\d_]{3,}", sign.lower())]
    if words:
        return _ISO.get(words[0], words[0].upper())
    bare = signs[0].lower().replace(" ", "")
    return next((_ISO[name] for name in sorted(_ISO, key=len, reverse=True) if bare.endswith(name)), bare.upper())


def _value(text: str, thousand: str | None) -> float:
    plain = re.sub(r"[' \u00a0\u202f]", "", text)
    plain = re.sub(r"[.,](?=\d{3}(?!\d))", "", plain).replace(",", ".")
    return float(plain) * (1_000 if thousand else 1)
