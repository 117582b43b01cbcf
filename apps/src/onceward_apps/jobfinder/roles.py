"""Kinds of work: which family a title belongs to, what it is about within it, and how close two titles are.

The table holds titles as employers of any trade write them, in English and Spanish first, with usual German, French and
Portuguese ones. A title that the table does not know is compared word by word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

import msgspec

LONGEST_TEXT = 20_000
"""How much of a description is read for what the work is about."""


class Role(msgspec.Struct, frozen=True):
    """A kind of work: a family, and what it is about within that."""

    family: str
    subjects: frozenset[str] = frozenset()


class Fit(msgspec.Struct, frozen=True):
    """How close a title is to one that is wanted, from 0 to 1, and in words."""

    share: float
    sentence: str


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)", re.IGNORECASE)


_FAMILIES: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    ("software", "", _any(
        r"software", r"(?:software|web|application|java|python|\.net|ruby|php|golang|c\+\+|node(?:\.js)?) developers?",
        r"developers?", r"programm(?:er|ierer(?:in)?)", r"(?:ingenier[oa]|desarrollador[a]?) de (?:software|sistemas)",
        r"desarrollador[a]?", r"programador[a]?", r"d[ée]veloppeu(?:r|se)", r"entwickler(?:in)?",
        r"desenvolvedor[a]?", r"technical staff", r"tech(?:nical)? lead", r"(?:staff|principal) engineer",
        r"engineering manager", r"(?:director|vp|head)(?:,| of) (?:software )?engineering", r"software architect",
    )),
    ("software", "backend", _any(r"back[\s-]?end", r"server[\s-]side", r"api (?:engineer|developer)")),
    ("software", "infrastructure", _any(
        r"(?:platform|infrastructure|cloud|systems|storage|database|network|reliability|release) engineers?", r"dev[\s-]?ops", r"sre",
        r"site reliability(?: engineer)?", r"ingenier[oa] de (?:plataforma|infraestructura)",
    )),
    ("software", "frontend", _any(r"front[\s-]?end", r"web (?:engineer|developer)", r"ui (?:engineer|developer)")),
    ("software", "mobile", _any(r"(?:ios|android|mobile|flutter|react native)(?: (?:engineer|developer))?")),
    ("software", "full stack", _any(r"full[\s-]?stack")),
    ("software", "data engineering", _any(
        r"(?:data|analytics|etl|big data) engineers?", r"ingenier[oa] de datos", r"data engineering",
    )),
    ("software", "machine learning", _any(
        r"machine learning(?: engineer(?:ing)?| scientist)?", r"ml(?:ops)? engineers?", r"ai engineers?", r"computer vision(?: engineer)?",
        r"deep learning(?: engineer)?", r"nlp engineer", r"research engineer", r"aprendizaje autom[áa]tico",
    )),
    ("software", "security", _any(
        r"(?:security|application security|appsec|devsecops|cyber[\s-]?security) (?:engineer|developer|architect)s?", r"penetration tester",
    )),
    ("software", "quality", _any(
        r"quality (?:assurance|engineer)(?: engineer)?", r"qa(?: (?:engineer|analyst|tester))?", r"(?:software )?test(?:er| engineer)", r"sdet",
        r"test automation",
    )),
    ("software", "embedded", _any(r"(?:embedded|firmware|robotics|hardware|fpga|autonomy) engineers?", r"embedded(?: software)?")),
    ("software", "optimization", _any(r"(?:optimi[sz]ation|operations research) (?:engineer|scientist)s?", r"operations research")),
    ("software", "business applications", _any(
        r"(?:salesforce|sap|erp|servicenow|netsuite|workday|oracle) (?:developer|engineer|consultant|architect)", r"applications? developer",
    )),
    ("engineering", "", _any(
        r"(?:mechanical|electrical|civil|chemical|structural|process|industrial|manufacturing|aerospace|biomedical|environmental|field"
        r"|validation|automotive|optical|acoustic) engineers?",
        r"ingenier[oa] (?:mec[áa]nic[oa]|civil|el[ée]ctric[oa]|industrial|qu[íi]mic[oa])",
    )),
    ("data science", "science", _any(
        r"(?:data|applied|decision|marketing|quantitative|staff|senior|sr\.?|principal|research)? ?(?:data )?scientists?", r"scientist",
        r"data science", r"applied science", r"cient[íi]fic[oa] de datos", r"cientista de dados", r"statistician", r"econom(?:ist|etrician)",
        r"quantitative (?:analyst|researcher)", r"(?:science manager|manager(?: i+)?, science)",
    )),
    ("data science", "analysis", _any(
        r"(?:data|product|bi|insights|reporting|web|digital|growth|research|people|quantitative) analysts?", r"(?:data |product |business )?analytics",
        r"business intelligence(?: (?:analyst|developer|engineer))?", r"data analysis", r"analista de (?:datos|inteligencia de negocios|bi)",
        r"datenanalyst(?:in)?", r"analyste de donn[ée]es", r"analista de dados",
    )),
    ("laboratory science", "", _any(
        r"(?:research|clinical|laboratory|lab|medical|chemistry|biology|process|formulation|food) (?:scientist|chemist|associate)s?", r"chemist",
        r"biologist", r"bio(?:informatics|statistic)\w*",
    )),
    ("product", "", _any(
        r"product (?:manager|owner|lead|management|director)", r"(?:gerente|jef[ae]|l[íi]der|responsable) de producto", r"produktmanager(?:in)?",
        r"chef(?:fe)? de produit",
    )),
    ("program", "", _any(
        r"(?:program(?:me)?|project|pgm|delivery|release) (?:manager|management|lead|leader|specialist|coordinator|director|analyst)s?", r"pgm",
        r"tpm", r"pmo", r"scrum master", r"agile coach", r"(?:gerente|jef[ae]|coordinador[a]?) de proyectos?", r"projektleiter(?:in)?",
    )),
    ("design", "", _any(
        r"designers?", r"design (?:director|lead|manager)", r"ux(?:/ui)?(?: \w+)?", r"user research(?:er)?", r"illustrator", r"art director",
        r"dise[ñn]ador[a]?",
    )),
    ("sales", "new business", _any(
        r"account executives?", r"(?:enterprise|inside|outside|field|direct|regional|digital|channel|ad|advertising)? ?sales", r"seller",
        r"sales (?:executive|representative|rep|associate|consultant|specialist|advisor|manager|director|lead)s?", r"client partners?",
        r"account representatives?", r"territory (?:manager|executive|lead|representative)", r"new business (?:manager|executive)",
        r"ejecutiv[oa] (?:de (?:ventas|cuentas?)|comercial)", r"(?:representante|asesor[a]?|agente|gerente|vendedor[a]?) (?:de ventas|comercial)",
        r"vendedor[a]?", r"ventas", r"vertriebs?\w*", r"(?:commercial|ing[ée]nieur commercial|charg[ée]e? d'affaires)", r"executiv[oa] de (?:contas|vendas)",
    )),
    ("sales", "business development", _any(
        r"business development(?: (?:manager|lead|executive|director|specialist|associate))?", r"desarrollo de negocios", r"biz ?dev",
    )),
    ("sales", "sales development", _any(
        r"(?:business|sales) development representatives?", r"bdrs?", r"sdrs?", r"lead generation \w+", r"appointment setter",
    )),
    ("sales", "account management", _any(
        r"(?:key |strategic |technical |enterprise )?account (?:manager|management|coordinator|partner|director)s?", r"(?:client|customer) success(?: \w+)?",
        r"partner (?:manager|management|development manager|success)", r"client (?:manager|services|relationship)", r"relationship manager",
        r"partnerships?(?: manager| lead)?", r"gerente de cuentas?", r"key account", r"kundenbetreuer(?:in)?", r"strategic accounts",
    )),
    ("sales", "presales", _any(
        r"(?:sales|solutions?|pre[\s-]?sales) (?:engineer|architect|consultant)s?", r"pre[\s-]?sales",
    )),
    ("sales", "enablement", _any(r"sales (?:trainer|training|enablement|coach)(?: \w+)?")),
    ("operations", "", _any(
        r"operations?(?: (?:manager|analyst|specialist|associate|lead|coordinator|director))?", r"(?:biz|business|strategy|product|market|city)? ?ops",
        r"(?:gerente|jef[ae]|coordinador[a]?|analista|director[a]?|supervisor[a]?|encargad[oa]|l[íi]der|especialista) de operaciones", r"operaciones",
        r"operations? research analyst", r"opera[çc][õo]es", r"chief of staff", r"betriebsleiter(?:in)?", r"responsable (?:des )?op[ée]rations?",
        r"general manager", r"(?:country|city|site|plant) manager",
    )),
    ("operations", "supply chain", _any(
        r"supply[\s-]chain(?: \w+)?", r"logistics(?: \w+)?", r"log[íi]stica", r"fulfil?lment(?: \w+)?", r"fleet(?: \w+)?", r"warehouse(?: \w+)?",
        r"cadena de suministro", r"inventory \w+", r"procurement(?: \w+)?", r"(?:strategic )?sourcing(?: analyst| manager)?", r"compras",
    )),
    ("operations", "commercial", _any(r"(?:sales|revenue|commercial|marketing|go-to-market|gtm) (?:operations|ops)(?: \w+)?")),
    ("support", "", _any(
        r"(?:customer|technical|client|user|community|product|application|desktop)? ?support(?: (?:specialist|representative|engineer|agent|analyst))?",
        r"customer (?:service|care|experience)(?: \w+)?", r"call cent(?:er|re)", r"service (?:team|desk)(?: \w+)?", r"help ?desk",
        r"atenci[óo]n al cliente", r"servicio al cliente", r"soporte(?: t[ée]cnico)?", r"(?:especialista de )?atendimento", r"kundenservice",
        r"coe specialist", r"implementation (?:specialist|consultant|manager)", r"onboarding specialist", r"investigat(?:ion|or)s?(?: specialist)?",
        r"claims? \w+",
    )),
    ("it", "", _any(
        r"it (?:operations|support|manager|specialist|technician|administrator|analyst|tech)(?: tech\w*)?", r"system(?:s)? administrators?", r"sysadmin",
        r"tech support", r"network administrator", r"administrador[a]? de sistemas",
    )),
    ("marketing", "", _any(
        r"(?:product |brand |growth |content |performance |digital |consumer |field )?marketing(?: \w+)?", r"marketer", r"brand manager", r"seo",
        r"social media(?: \w+)?", r"content (?:manager|strategist|writer|creator)", r"copywriter", r"growth (?:manager|lead|marketer)", r"mercadeo",
        r"(?:gerente|analista|coordinador[a]?) de marketing",
    )),
    ("finance", "", _any(
        r"financ(?:e|ial)(?: \w+)?", r"account(?:ant|ing)(?: \w+)?", r"controller", r"fp&a", r"audit(?:or)?", r"tax(?: \w+)?", r"treasury(?: \w+)?",
        r"payroll(?: \w+)?", r"sox", r"contador[a]?", r"finanzas", r"contabilidad", r"buchhalter(?:in)?", r"comptable", r"actuar(?:y|ial)",
        r"underwriter", r"business enablement", r"billing specialist", r"(?:gerente|analista) (?:financier[oa]|de finanzas)",
    )),
    ("risk", "", _any(
        r"(?:risk|fraud|compliance|safety|trust|kyc|aml|regulatory)(?: (?:and|&) \w+)?(?: (?:manager|analyst|officer|specialist|lead|investigator))?",
        r"riesgos?", r"fraude", r"cumplimiento",
    )),
    ("legal", "", _any(
        r"(?:legal|counsel|attorney|lawyer|paralegal|contracts manager)(?: \w+)?", r"abogad[oa]", r"jur[íi]dic[oa]", r"jurist", r"juriste",
    )),
    ("people", "", _any(
        r"(?:human resources|hr|people|talent|hrbp)(?: (?:manager|partner|business partner|specialist|operations|programs?|acquisition|ops|lead))*",
        r"recruit(?:er|ing|ment)(?: \w+)?", r"(?:talent )?sourcer", r"recursos humanos", r"reclutador[a]?", r"compensation(?: \w+)?", r"benefits \w+",
        r"learning (?:&|and) development", r"personal(?:referent|leiter)(?:in)?",
    )),
    ("communications", "", _any(r"communications?(?: \w+)?", r"public (?:policy|affairs|relations)", r"government (?:affairs|relations)", r"press officer")),
    ("administration", "", _any(
        r"(?:executive|administrative|personal|office|virtual) (?:assistant|manager|coordinator|business partner|administrator)s?", r"receptionist",
        r"secretari[oa]", r"asistente (?:administrativ[oa]|ejecutiv[oa])", r"data entry(?: \w+)?",
    )),
    ("security", "", _any(r"security(?: (?:officer|guard|manager|analyst|investigator|specialist))?", r"guardia de seguridad")),
    ("quality control", "", _any(r"qc", r"quality (?:control|inspector|manager|specialist|analyst)")),
    ("writing", "", _any(r"technical writer", r"editor", r"journalist", r"translator", r"localization(?: \w+)?", r"redactor[a]?", r"traductor[a]?")),
    ("care", "", _any(
        r"nurse(?: \w+)?", r"physician", r"doctor", r"therapist", r"caregiver", r"pharmacist", r"dentist", r"veterinar\w+", r"medical assistant",
        r"enfermer[oa]", r"m[ée]dic[oa]", r"pflegefachkraft|pfleger(?:in)?",
    )),
    ("teaching", "", _any(r"teacher", r"tutor", r"professor", r"instructor", r"lecturer", r"profesor[a]?", r"docente", r"lehrer(?:in)?")),
    ("manual work", "", _any(
        r"driver", r"mechanic", r"electrician", r"welder", r"carpenter", r"technician", r"operator", r"cook", r"chef", r"waiter", r"barista",
        r"cashier", r"cleaner", r"picker", r"packer", r"conductor[a]?", r"cociner[oa]", r"t[ée]cnic[oa]", r"mec[áa]nic[oa]", r"crew member",
        r"store (?:manager|associate)", r"retail associate", r"repartidor[a]?",
    )),
)  # fmt: skip
"""Family, subject within it, and the words of titles. Of several in a title the last counts: it is what one is."""

_WEAK: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    ("software", "", _any(r"engineers?", r"engineering", r"architect", r"ingenier[oa]", r"ing[ée]nieur[e]?", r"ingenieur(?:in)?")),
    ("data science", "analysis", _any(r"analysts?", r"analista", r"analyste")),
    ("operations", "", _any(r"(?:strategy|strategic planning|business) (?:manager|associate|lead|analyst)", r"estrategia")),
)
"""What counts where no word of a family stands in a title."""

_ABOUT: Mapping[str, tuple[tuple[str, re.Pattern[str]], ...]] = MappingProxyType({
    "software": (
        ("backend", _any(
            r"back[\s-]?end", r"distributed(?: systems?| architecture)?", r"micro[\s-]?services?", r"apis?", r"high availability", r"highly available",
            r"scalab\w+", r"low[\s-]latency", r"reliab\w+", r"qps", r"server[\s-]side", r"web services", r"golang", r"payments? platform",
        )),
        ("infrastructure", _any(
            r"infrastructure", r"kubernetes", r"cloud", r"platforms?", r"storage", r"databases?", r"service mesh", r"containers?", r"observability",
            r"networking", r"compute", r"linux", r"developer (?:tools|productivity)",
        )),
        ("frontend", _any(
            r"front[\s-]?end", r"react(?:\.?js)?", r"angular", r"vue", r"css", r"html5?", r"javascript", r"typescript", r"ui", r"web (?:app\w*|developer|engineer)",
            r"browser", r"accessibility",
        )),
        ("mobile", _any(r"ios", r"android", r"mobile (?:app\w*|engineer\w*|develop\w*)", r"swift", r"kotlin", r"objective-c", r"xcode", r"flutter")),
        ("full stack", _any(r"full[\s-]?stack")),
        ("data engineering", _any(r"etl", r"data (?:pipelines?|warehouse|lake|engineering|modell?ing)", r"spark", r"hadoop", r"airflow", r"flink", r"dbt")),
        ("machine learning", _any(
            r"machine learning", r"ml", r"deep learning", r"tensorflow", r"pytorch", r"neural", r"llms?", r"computer vision", r"fine[\s-]tun\w+",
            r"reinforcement learning", r"model training", r"training models", r"recommend(?:er|ation) systems?",
        )),
        ("security", _any(r"threats?", r"vulnerabilit\w+", r"incident response", r"penetration", r"cyber[\s-]?security", r"siem", r"cyber defen[sc]e")),
        ("quality", _any(r"test (?:plans?|cases?|automation)", r"selenium", r"manual testing", r"quality assurance")),
        ("embedded", _any(r"firmware", r"embedded", r"sensors?", r"robot\w*", r"rtos", r"hardware", r"microcontrollers?", r"calibration")),
        ("optimization", _any(r"operations research", r"gurobi", r"cplex", r"or[\s-]tools", r"linear programming", r"optimi[sz]ation (?:model\w*|packages?)")),
        ("business applications", _any(r"salesforce", r"sap", r"erp", r"servicenow", r"netsuite", r"apex", r"oracle (?:erp|ebs|fusion)")),
    ),
})  # fmt: skip
"""Words of a text by which one sees what the work is about where the title says it in general."""

_IN_TITLES: Mapping[str, tuple[tuple[str, re.Pattern[str]], ...]] = MappingProxyType({
    "software": (
        ("backend", _any(r"back[\s-]?end", r"server[\s-]side", r"microservices", r"distributed systems", r"apis?")),
        ("infrastructure", _any(
            r"platforms?", r"infrastructure", r"cloud", r"compute", r"storage", r"databases?", r"devops", r"sre", r"site reliability", r"kubernetes",
            r"service mesh", r"networking", r"foundations?", r"developer (?:tools|experience|productivity)", r"observability", r"plataforma",
        )),
        ("frontend", _any(r"front[\s-]?end", r"web", r"ui", r"react(?:\.?js)?", r"angular", r"vue(?:\.?js)?", r"javascript")),
        ("mobile", _any(r"ios", r"android", r"mobile", r"react native", r"flutter", r"swift", r"m[óo]vil")),
        ("full stack", _any(r"full[\s-]?stack")),
        ("data engineering", _any(r"data (?:engineer\w*|platform|pipelines?|infrastructure)", r"analytics engineer\w*", r"etl", r"spark")),
        ("machine learning", _any(r"machine learning", r"ml(?:ops)?", r"computer vision", r"deep learning", r"nlp", r"ai engineer", r"perception")),
        ("security", _any(r"(?:application |product |cyber)?security", r"appsec")),
        ("quality", _any(r"qa", r"quality", r"test(?:ing| automation)?", r"sdet")),
        ("embedded", _any(r"embedded", r"firmware", r"robotics", r"sensors?", r"hardware", r"fpga")),
        ("optimization", _any(r"operations research", r"optimi[sz]ation")),
        ("business applications", _any(r"salesforce", r"sap", r"erp", r"servicenow", r"netsuite", r"applications? developer", r"atlassian")),
    ),
})  # fmt: skip

_NEAR: Mapping[frozenset[str], float] = MappingProxyType({
    frozenset(pair): share
    for *pair, share in (
        ("backend", "infrastructure", 0.9), ("backend", "full stack", 0.85), ("backend", "data engineering", 0.7),
        ("infrastructure", "data engineering", 0.7), ("frontend", "full stack", 0.85), ("data engineering", "machine learning", 0.5),
        ("infrastructure", "full stack", 0.6), ("frontend", "mobile", 0.5), ("science", "analysis", 0.9), ("new business", "business development", 0.75),
        ("new business", "sales development", 0.6), ("business development", "sales development", 0.7), ("new business", "account management", 0.5),
        ("business development", "account management", 0.5), ("supply chain", "commercial", 0.7),
    )
})  # type: ignore[misc]  # fmt: skip
"""How close two subjects of a family are; what is not named is far."""
FAR, GENERAL, OTHERWISE = 0.3, 0.9, 0.5

_KIN: Mapping[frozenset[str], float] = MappingProxyType({
    frozenset(("software", "engineering")): 0.3, frozenset(("operations", "program")): 0.5, frozenset(("support", "sales")): 0.3,
    frozenset(("software", "data science")): 0.4, frozenset(("operations", "support")): 0.3, frozenset(("marketing", "sales")): 0.3,
    frozenset(("product", "program")): 0.5, frozenset(("finance", "data science")): 0.3, frozenset(("it", "software")): 0.3,
    frozenset(("risk", "operations")): 0.4, frozenset(("marketing", "operations")): 0.4, frozenset(("quality control", "operations")): 0.3,
})  # fmt: skip
"""How close different families are."""

_PARTS = re.compile(r"\s*(?:,|\||:|\(|\)|\[|\]|;|\s[-–—]+|[-–—]+\s|/)\s*")
_AS_A = re.compile(
    r"\b(?:as (?:an?|the|our)|(?:looking|searching) for (?:an?|our)|hiring an?|seeking (?:an?|our)|como)\s+([^\n.,;:]{4,80})",
    re.IGNORECASE,
)
_TEAM = re.compile(r"\b(?:for|on|in|at|within|to|who|you|we|with|your|of the|is|en el|para)\b.*", re.IGNORECASE)
_WORD = re.compile(r"[\w+#.]+")


@lru_cache(maxsize=4_000)
def role_of(title: str) -> Role | None:
    """The kind of work that a title names: by its first part, or by the first of the others that names one."""
    for table in (_FAMILIES, _WEAK):
        for part in _PARTS.split(title):
            if found := _last(table, part):
                return Role(found[0], frozenset(_subjects(found, title)))
    return None


def fit(title: str, text: str, department: str | None, wanted: Sequence[str]) -> Fit:
    """How close the work of a listing is to the closest of the titles that are wanted."""
    return max((_fit(title, text[:LONGEST_TEXT], department, one) for one in wanted), key=lambda one: one.share)


def _fit(title: str, text: str, department: str | None, wanted: str) -> Fit:
    own = role_of(title)
    words, want_words = _words(title), _words(wanted)
    overlap = len(want_words & words) / max(1, len(want_words))
    want = role_of(wanted)
    if want is None:
        return Fit(overlap, f"the title says {wanted!r}" if overlap == 1 else f"the title is no {wanted!r}")
    said = [role for role in _said(text) if role.family == want.family]
    if own is None and (said or department):
        own = said[0] if said else role_of(department or "")
    if own is None:
        return Fit(overlap * GENERAL, f"the title is close to {wanted!r}" if overlap else f"the title names no work like {wanted!r}")
    if own.family != want.family:
        share = _KIN.get(frozenset((own.family, want.family)), 0.0)
        if said and share >= FAR:
            return Fit(GENERAL, f"the text calls it {_named(said[0])}, as {wanted!r} is")
        return Fit(share, f"the work is {_named(own)}; wanted: {wanted!r}")
    return _within(own, want, said, text, wanted)


def _within(own: Role, want: Role, said: Sequence[Role], text: str, wanted: str) -> Fit:
    if not want.subjects:
        special = own.subjects and own.family in _ABOUT
        return Fit(GENERAL if special else 1.0, f"the title is {_named(own)}, as {wanted!r} is")
    if own.subjects:
        share = max(_closeness(one, other) for one in own.subjects for other in want.subjects)
        return Fit(share, f"the title is {_named(own)}" + (f", as {wanted!r} is" if share > OTHERWISE else f"; wanted: {wanted!r}"))
    for role in said:
        if role.subjects & want.subjects:
            return Fit(1.0, f"the text calls it {_named(role)}, as {wanted!r} is")
    counts = _counts(own.family, text)
    if not sum(counts.values()):
        return Fit(GENERAL, f"the title is {own.family}, as {wanted!r} is")
    near = sum(number * max(_closeness(subject, other) for other in want.subjects) for subject, number in counts.items())
    share = min(1.0, 0.35 + near / sum(counts.values()))
    most = max(counts, key=lambda subject: counts[subject])
    return Fit(round(share, 2), f"the title is {own.family}, and the text speaks most of {most}; wanted: {wanted!r}")


def _counts(family: str, text: str) -> dict[str, int]:
    return {
        subject: number for subject, pattern in _ABOUT.get(family, ()) if (number := sum(1 for _ in pattern.finditer(text)))
    }


def _closeness(one: str, other: str) -> float:
    return 1.0 if one == other else _NEAR.get(frozenset((one, other)), FAR)


def _subjects(found: tuple[str, str, int], title: str) -> Iterator[str]:
    family, subject, _ = found
    if subject:
        yield subject
    yield from (name for name, pattern in _IN_TITLES.get(family, ()) if pattern.search(title))


def _last(table: Sequence[tuple[str, str, re.Pattern[str]]], part: str) -> tuple[str, str, int] | None:
    """Of what a part of a title names the last; of several that end there the longest."""
    best: tuple[int, int, tuple[str, str, int]] | None = None
    for family, subject, pattern in table:
        for match in pattern.finditer(part):
            told = (match.end(), len(match[0].strip()), (family, subject, match.start()))
            if best is None or told[:2] > best[:2]:
                best = told
    return best[2] if best else None


def _said(text: str) -> Iterator[Role]:
    """What the text itself calls the one who does the work: "as a backend engineer you will …"."""
    for number, match in enumerate(_AS_A.finditer(text)):
        if number == 12:
            return
        role = role_of(_TEAM.sub("", match[1]))
        if role is not None:
            yield role


def _named(role: Role) -> str:
    return " and ".join(sorted(role.subjects)) + f" ({role.family})" if role.subjects else role.family


@lru_cache(maxsize=1_000)
def _words(title: str) -> frozenset[str]:
    return frozenset(_WORD.findall(title.casefold()))
