"""Which place lies in which: cities in states and countries, countries in regions, under the names that postings use.

A place that no table knows is compared by its own words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

_US = "united states"
_STATES: Mapping[str, str] = MappingProxyType({
    "AL": "alabama", "AK": "alaska", "AZ": "arizona", "AR": "arkansas", "CA": "california", "CO": "colorado",
    "CT": "connecticut",
    "DE": "delaware", "FL": "florida", "GA": "georgia", "HI": "hawaii", "ID": "idaho", "IL": "illinois",
    "IN": "indiana", "IA": "iowa",
    "KS": "kansas", "KY": "kentucky", "LA": "louisiana", "ME": "maine", "MD": "maryland", "MA": "massachusetts",
    "MI": "michigan",
    "MN": "minnesota", "MS": "mississippi", "MO": "missouri", "MT": "montana", "NE": "nebraska", "NV": "nevada",
    "NH": "new hampshire",
    "NJ": "new jersey", "NM": "new mexico", "NY": "new york state", "NC": "north carolina", "ND": "north dakota",
    "OH": "ohio",
    "OK": "oklahoma", "OR": "oregon", "PA": "pennsylvania", "RI": "rhode island", "SC": "south carolina",
    "SD": "south dakota",
    "TN": "tennessee", "TX": "texas", "UT": "utah", "VT": "vermont", "VA": "virginia", "WA": "washington state",
    "WV": "west virginia",
    "WI": "wisconsin", "WY": "wyoming", "DC": "district of columbia",
})  # fmt: skip
_COUNTRY_CODES: Mapping[str, str] = MappingProxyType({
    "US": _US, "USA": _US, "U.S": _US, "U.S.A": _US, "UK": "united kingdom", "U.K": "united kingdom",
    "GB": "united kingdom",
    "UAE": "united arab emirates", "NZ": "new zealand", "MX": "mexico", "BR": "brazil", "GER": "germany",
    "EU": "europe",
})  # fmt: skip
"""Codes are read in capital letters alone: `IN` is a state, and `in` is a word."""

_ALIASES: Mapping[str, str] = MappingProxyType({
    "united states of america": _US, "america": _US, "the united states": _US, "estados unidos": _US,
    "great britain": "united kingdom",
    "england": "united kingdom", "scotland": "united kingdom", "wales": "united kingdom", "deutschland": "germany",
    "alemania": "germany",
    "espana": "spain", "brasil": "brazil", "holland": "netherlands", "the netherlands": "netherlands",
    "nederland": "netherlands",
    "schweiz": "switzerland", "suisse": "switzerland", "osterreich": "austria", "italia": "italy", "polska": "poland",
    "czechia": "czech republic",
    "korea": "south korea", "republic of korea": "south korea", "nyc": "new york city", "new york": "new york city",
    "sf": "san francisco",
    "san francisco bay area": "bay area", "sf bay area": "bay area", "silicon valley": "bay area",
    "la": "los angeles", "greater los angeles": "los angeles",
    "ciudad de mexico": "mexico city", "cdmx": "mexico city", "munchen": "munich", "koln": "cologne",
    "wien": "vienna", "zurich": "zurich",
    "lisboa": "lisbon", "roma": "rome", "milano": "milan", "praha": "prague", "warszawa": "warsaw",
    "bengaluru": "bangalore",
    "bogota d.c": "bogota", "santa fe de bogota": "bogota", "latam": "latin america", "latinoamerica": "latin america",
    "america latina": "latin america", "washington dc": "district of columbia",
    "washington d.c": "district of columbia",
    "pacific northwest": "pacific northwest", "us west coast": "west coast", "u.s. west coast": "west coast",
    "the americas": "americas",
    "apac": "asia pacific", "asia": "asia pacific", "european union": "europe", "eu": "europe",
    "caba": "buenos aires", "nueva york": "new york city",
    "north america": "north america", "norteamerica": "north america", "uk": "united kingdom", "usa": _US, "us": _US,
})  # fmt: skip

_HOLDS: Mapping[str, str] = MappingProxyType({
    "bay area": "san francisco, oakland, berkeley, san jose ca, sunnyvale, palo alto, mountain view, menlo park, "
                "redwood city, san mateo, santa clara,"
                " cupertino, fremont, south san francisco, foster city, burlingame, emeryville, san bruno, "
                "pleasanton, walnut creek",
    "california": "bay area, los angeles, san diego, sacramento, irvine, santa monica, culver city, pasadena, santa "
                  "barbara, long beach, anaheim,"
                  " burbank, el segundo, carlsbad, fresno, venice",
    "washington state": "seattle, bellevue, redmond, kirkland, tacoma, spokane, olympia, vancouver wa",
    "oregon": "portland, beaverton, hillsboro, eugene, bend, salem or",
    "new york state": "new york city, buffalo, rochester, albany, syracuse",
    "new york city": "manhattan, brooklyn, queens, bronx",
    "texas": "austin, dallas, houston, san antonio, plano, fort worth, irving, frisco",
    "illinois": "chicago, naperville", "massachusetts": "boston, cambridge ma, somerville, waltham",
    "florida": "miami, orlando, tampa, jacksonville",
    "georgia": "atlanta", "colorado": "denver, boulder, colorado springs",
    "arizona": "phoenix, tempe, scottsdale, tucson, chandler, mesa",
    "minnesota": "minneapolis, saint paul, duluth", "pennsylvania": "philadelphia, pittsburgh",
    "michigan": "detroit, ann arbor",
    "utah": "salt lake city, lehi, provo", "nevada": "las vegas, reno",
    "north carolina": "raleigh, durham, charlotte", "tennessee": "nashville, memphis",
    "ohio": "columbus, cleveland, cincinnati", "missouri": "st. louis, kansas city",
    "virginia": "arlington, reston, mclean, richmond",
    "maryland": "baltimore, bethesda", "new jersey": "newark, jersey city, hoboken, princeton",
    "wisconsin": "madison, milwaukee",
    "indiana": "indianapolis", "idaho": "boise", "connecticut": "stamford, hartford", "louisiana": "new orleans",
    "new mexico": "albuquerque",
    "west coast": "california, oregon, washington state", "pacific northwest": "oregon, washington state, idaho",
    "east coast": "new york state, massachusetts, new jersey, pennsylvania, maryland, virginia, north carolina, south "
                  "carolina, georgia, florida,"
                  " connecticut, rhode island, new hampshire, maine, delaware, district of columbia",
    "midwest": "illinois, michigan, minnesota, wisconsin, ohio, indiana, iowa, missouri, kansas, nebraska, north "
               "dakota, south dakota",
    _US: ", ".join(sorted(set(_STATES.values()))),
    "canada": "ontario, quebec, british columbia, alberta, manitoba, nova scotia, saskatchewan",
    "ontario": "toronto, ottawa, waterloo, mississauga",
    "quebec": "montreal", "british columbia": "vancouver, victoria bc", "alberta": "calgary, edmonton",
    "mexico": "mexico city, guadalajara, monterrey, queretaro, santiago de queretaro, puebla, tijuana, merida, "
              "cancun, leon, nuevo leon, jalisco",
    "colombia": "bogota, medellin, cali, barranquilla, cartagena", "chile": "santiago, valparaiso, concepcion",
    "argentina": "buenos aires, cordoba, rosario, mendoza", "peru": "lima, arequipa",
    "costa rica": "san jose, heredia, escazu, san rafael de escazu",
    "brazil": "sao paulo, rio de janeiro, belo horizonte, brasilia, curitiba, porto alegre, recife, florianopolis",
    "uruguay": "montevideo", "ecuador": "quito, guayaquil", "panama": "panama city", "venezuela": "caracas",
    "bolivia": "la paz",
    "dominican republic": "santo domingo", "guatemala": "guatemala city", "el salvador": "san salvador",
    "paraguay": "asuncion",
    "latin america": "mexico, colombia, chile, argentina, peru, costa rica, brazil, uruguay, ecuador, panama, "
                     "venezuela, bolivia, dominican republic,"
                     " guatemala, el salvador, honduras, nicaragua, paraguay, cuba, puerto rico",
    "north america": f"{_US}, canada, mexico", "americas": "north america, latin america",
    "united kingdom": "london, manchester, edinburgh, bristol, cambridge, leeds, glasgow, birmingham, cardiff, "
                      "belfast, oxford",
    "ireland": "dublin, cork, galway, limerick",
    "germany": "berlin, munich, hamburg, cologne, frankfurt, stuttgart, dusseldorf, leipzig",
    "france": "paris, lyon, marseille, toulouse, bordeaux, lille, nantes, strasbourg, nice",
    "spain": "madrid, barcelona, valencia, sevilla, malaga, bilbao",
    "portugal": "lisbon, porto, braga", "italy": "rome, milan, turin, bologna",
    "netherlands": "amsterdam, rotterdam, utrecht, eindhoven, the hague",
    "belgium": "brussels, antwerp, ghent", "switzerland": "zurich, geneva, basel, lausanne, bern",
    "austria": "vienna, graz, linz",
    "poland": "warsaw, krakow, wroclaw, gdansk, poznan", "czech republic": "prague, brno", "hungary": "budapest",
    "romania": "bucharest, cluj",
    "sweden": "stockholm, gothenburg, malmo", "norway": "oslo, bergen", "denmark": "copenhagen, aarhus",
    "finland": "helsinki, espoo, uusimaa",
    "greece": "athens", "bulgaria": "sofia", "serbia": "belgrade", "estonia": "tallinn", "ukraine": "kyiv",
    "croatia": "zagreb",
    "europe": "united kingdom, ireland, germany, france, spain, portugal, italy, netherlands, belgium, switzerland, "
              "austria, poland, czech republic,"
              " hungary, romania, sweden, norway, denmark, finland, greece, bulgaria, serbia, estonia, ukraine, "
              "croatia, latvia, lithuania, slovakia,"
              " slovenia, luxembourg, malta, cyprus, iceland",
    "dach": "germany, austria, switzerland", "nordics": "sweden, norway, denmark, finland, iceland",
    "emea": "europe, united arab emirates, saudi arabia, egypt, south africa, kenya, nigeria, israel, turkey, qatar, "
            "morocco",
    "india": "bangalore, hyderabad, mumbai, delhi, gurgaon, gurugram, pune, chennai, noida, kolkata",
    "japan": "tokyo, osaka", "south korea": "seoul",
    "china": "beijing, shanghai, shenzhen, guangzhou, hong kong", "taiwan": "taipei, taipei city",
    "philippines": "manila, taguig city, makati, cebu",
    "australia": "sydney, melbourne, brisbane, perth, adelaide, canberra", "new zealand": "auckland, wellington",
    "indonesia": "jakarta",
    "vietnam": "hanoi, ho chi minh city", "thailand": "bangkok", "malaysia": "kuala lumpur",
    "pakistan": "karachi, lahore",
    "asia pacific": "india, japan, south korea, china, taiwan, philippines, australia, new zealand, indonesia, "
                    "vietnam, thailand, malaysia, pakistan,"
                    " singapore, bangladesh, sri lanka",
    "israel": "tel aviv, haifa, jerusalem", "turkey": "istanbul, ankara", "united arab emirates": "dubai, abu dhabi",
    "egypt": "cairo",
    "saudi arabia": "riyadh, jeddah", "south africa": "johannesburg, cape town", "kenya": "nairobi", "nigeria": "lagos",
})  # fmt: skip
"""A place, and what lies in it. Of cities of the same name the one that stands alone is the one that is meant most."""

_PLACES = re.compile(r"\s*(?:;|\||\n|\s/\s|\bor\b|\band\b|•)\s*", re.IGNORECASE)
_PARTS = re.compile(r"\s*(?:,|\(|\)|\s[-–—]\s|:)\s*")
_EXTRA = re.compile(
    r"\b(?:remote|hybrid|on[\s-]?site|in[\s-]office|anywhere|office|based|only|metro(?:politan)?|area|greater|region"
    r"|city of|hq|headquarters|within|in|the"
    r"|home|work from|full[\s-]time|teletrabajo|remoto|hibrido)\b",
    re.IGNORECASE,
)


def folded(text: str) -> str:
    """A text in small letters, without accents and doubled spaces."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return " ".join("".join(letter for letter in plain if not unicodedata.combining(letter)).split())


def _above() -> dict[str, set[str]]:
    above: dict[str, set[str]] = {}
    for holder, held in _HOLDS.items():
        for name in held.split(","):
            above.setdefault(name.strip(), set()).add(holder)
    return above


_ABOVE = _above()
_KNOWN = frozenset({*_HOLDS, *_ABOVE, "worldwide"})
_COUNTRIES = frozenset(
    name
    for region in ("americas", "north america", "latin america", "europe", "emea", "asia pacific")
    for name in map(str.strip, _HOLDS[region].split(","))
) - {"north america", "latin america", "europe"}


@lru_cache(maxsize=8_000)
def places_in(location: str) -> tuple[frozenset[str], ...]:
    """The places that a location names, each with all in which it lies: what the tables don't know is as it is "
    "written."""
    found = [_with_above(one) for one in _PLACES.split(location[:2_000])]
    return tuple(one for one in found if one)


@lru_cache(maxsize=8_000)
def lies_in(location: str, wanted: str) -> bool:
    """Whether one of the places of a location lies in the one that is wanted: a city, a state, a country or a "
    "region."""
    want = tuple(map(_name, _parts(wanted)))
    if not want:
        return False
    return any(all(name in place or name in _words_of(place) for name in want) for place in places_in(location))


@lru_cache(maxsize=2_000)
def countries_of(location: str) -> frozenset[str]:
    """The countries, or regions of many, that a location names or lies in; none where the tables know no place of "
    "it."""
    found: set[str] = set()
    for place in places_in(location):
        found |= place & (_COUNTRIES or _KNOWN)
        if not place & _COUNTRIES:
            found |= place & {
                "europe",
                "emea",
                "latin america",
                "north america",
                "americas",
                "asia pacific",
                "dach",
                "nordics",
            }
    return frozenset(found)


def holds(region: str, country: str) -> bool:
    """Whether a country is a region, or lies in it."""
    return region == country or region in _closure(country) or country in _closure(region)


def _with_above(text: str) -> frozenset[str]:
    names = [_name(part) for part in _parts(text)]
    if "district of columbia" in names:
        names = [name for name in names if name != "washington state"]
    known = [name for name in names if name in _KNOWN]
    stated = {above for name in known[1:] for above in (name, *_closure(name))}
    found: set[str] = set()
    for index, name in enumerate(names):
        found.add(name)
        over = _closure(name)
        # Portland, Maine lies in no Oregon: what is written beside a name counts before the table.
        if index == 0 and stated & _COUNTRIES and over & _COUNTRIES and not over & _COUNTRIES & stated:
            continue
        if (
            index == 0
            and stated & set(_STATES.values())
            and over & set(_STATES.values())
            and not over & set(_STATES.values()) & stated
        ):
            continue
        found |= over
    return frozenset(found)


def _parts(text: str) -> Iterator[str]:
    for part in _PARTS.split(text):
        if _ALIASES.get(folded(part), folded(part)) in _KNOWN:
            yield part
            continue
        bare = " ".join(_EXTRA.sub(" ", part).split()).strip(" -–—.,")
        if bare:
            yield bare


def _name(part: str) -> str:
    if part in _COUNTRY_CODES:
        return _COUNTRY_CODES[part]
    if part in _STATES:
        return _STATES[part]
    name = folded(part)
    if name == "washington":
        return "washington state"
    return _ALIASES.get(name, name)


@lru_cache(maxsize=2_000)
def _closure(name: str) -> frozenset[str]:
    above = set(_ABOVE.get(name, ()))
    for one in tuple(above):
        above |= _closure(one)
    return frozenset(above)


@lru_cache(maxsize=8_000)
def _words_of(place: frozenset[str]) -> frozenset[str]:
    """Every run of words in the names of a place: `Greater Springfield area` names Springfield."""
    found: set[str] = set()
    for name in place:
        if name in _KNOWN:
            continue
        words = re.findall(r"[\w.&']+", name)[:12]
        found |= {" ".join(words[start:end]) for start in range(len(words)) for end in range(start + 1, len(words) + 1)}
    return frozenset(found)
