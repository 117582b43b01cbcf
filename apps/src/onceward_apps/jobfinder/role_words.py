"""The words by which kinds of work are known, in titles and in texts, and how close one kind is to another."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)", re.IGNORECASE)


FAMILIES: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    ("software", "", _any(
        r"software\w*", r"chief technology officer", r"cto",
        r"(?:software|web|application|java|python|\.net|ruby|php|golang|c\+\+|node(?:\.js)?) developers?",
        r"developers?", r"programm(?:er|ierer(?:in)?)", r"(?:ingenier[oa]|desarrollador[a]?) de (?:software|sistemas)",
        r"desarrollador[a]?", r"programador[a]?", r"d[ée]veloppeu(?:r|se)", r"\w*entwickler(?:in)?",
        r"desenvolvedor[a]?", r"technical staff", r"tech(?:nical)? lead", r"(?:staff|principal) engineer",
        r"engineering manager", r"(?:director|vp|head)(?:,| of) (?:software )?engineering", r"software architect",
    )),
    ("software", "backend", _any(r"back[\s-]?end", r"server[\s-]side", r"api (?:engineer|developer)")),
    ("software", "infrastructure", _any(
        r"(?:platform|infrastructure|cloud|systems|storage|database|network|reliability|release) engineers?",
        r"dev[\s-]?ops", r"sre",
        r"site reliability(?: engineer)?", r"ingenier[oa] de (?:plataforma|infraestructura)",
    )),
    ("software", "frontend", _any(r"front[\s-]?end", r"web (?:engineer|developer)", r"ui (?:engineer|developer)")),
    ("software", "mobile", _any(r"(?:ios|android|mobile|flutter|react native)(?: (?:engineer|developer))?")),
    ("software", "full stack", _any(r"full[\s-]?stack")),
    ("software", "data engineering", _any(
        r"(?:data|analytics|etl|big data) engineers?", r"ingenier[oa] de datos", r"data engineering",
    )),
    ("software", "machine learning", _any(
        r"machine learning(?: engineer(?:ing)?| scientist)?", r"ml(?:ops)? engineers?", r"ai engineers?",
        r"computer vision(?: engineer)?",
        r"deep learning(?: engineer)?", r"nlp engineer", r"research engineer", r"aprendizaje autom[áa]tico",
    )),
    ("software", "security", _any(
        r"(?:security|application security|appsec|devsecops|cyber[\s-]?security) (?:engineer|developer|architect)s?",
        r"penetration tester",
    )),
    ("software", "quality", _any(
        r"quality (?:assurance|engineer)(?: engineer)?", r"qa(?: (?:engineer|analyst|tester))?",
        r"(?:software )?test(?:er| engineer)", r"sdet",
        r"test automation",
    )),
    ("software", "embedded", _any(r"(?:embedded|firmware|robotics|hardware|fpga|autonomy) engineers?",
    r"embedded(?: software)?")),
    ("software", "optimization", _any(r"(?:optimi[sz]ation|operations research) (?:engineer|scientist)s?",
    r"operations research")),
    ("software", "business applications", _any(
        r"(?:salesforce|sap|erp|servicenow|netsuite|workday|oracle) (?:developer|engineer|consultant|architect"
        r"|administrator)", r"applications? developer",
    )),
    ("engineering", "", _any(
        r"(?:mechanical|electrical|civil|chemical|structural|process|industrial|manufacturing|aerospace|biomedical"
        r"|environmental|field"
        r"|validation|automotive|optical|acoustic) engineers?",
        r"ingenier[oa] (?:mec[áa]nic[oa]|civil|el[ée]ctric[oa]|industrial|qu[íi]mic[oa])",
    )),
    ("data science", "science", _any(
        r"(?:data|applied|decision|marketing|quantitative|staff|senior|sr\.?|principal"
        r"|research)? ?(?:data )?scientists?", r"scientist",
        r"data science", r"applied science", r"cient[íi]fic[oa] de datos", r"cientista de dados", r"statistician",
        r"econom(?:ist|etrician)",
        r"quantitative (?:analyst|researcher)", r"(?:science manager|manager(?: i+)?, science)",
    )),
    ("data science", "analysis", _any(
        r"(?:data|product|bi|insights|reporting|web|digital|growth|research|people|quantitative) analysts?",
        r"(?:data |product |business )?analytics",
        r"business intelligence(?: (?:analyst|developer|engineer))?", r"data analysis",
        r"analista de (?:datos|inteligencia de negocios|bi)",
        r"datenanalyst(?:in)?", r"analyste de donn[ée]es", r"analista de dados",
    )),
    ("laboratory science", "", _any(
        r"(?:research|clinical|laboratory|lab|medical|chemistry|biology|process|formulation|food) (?:scientist"
        r"|chemist|associate)s?", r"chemist",
        r"biologist", r"bio(?:informatics|statistic)\w*",
    )),
    ("product", "", _any(
        r"product (?:manager|owner|lead|management|director)",
        r"(?:gerente|jef[ae]|l[íi]der|responsable) de producto", r"produktmanager(?:in)?",
        r"chef(?:fe)? de produit",
    )),
    ("program", "", _any(
        r"(?:program(?:me)?|project|pgm|delivery|release) (?:manager|management|lead|leader|specialist|coordinator"
        r"|director|analyst)s?", r"pgm",
        r"tpm", r"pmo", r"scrum master", r"agile coach", r"(?:gerente|jef[ae]|coordinador[a]?) de proyectos?",
        r"projektleiter(?:in)?",
    )),
    ("design", "", _any(
        r"designers?", r"design (?:director|lead|manager)", r"ux(?:/ui)?(?: \w+)?", r"user research(?:er)?",
        r"illustrator", r"art director",
        r"dise[ñn]ador[a]?",
    )),
    ("sales", "new business", _any(
        r"account executives?", r"(?:enterprise|inside|outside|field|direct|regional|digital|channel|ad"
                                r"|advertising)? ?sales", r"seller",
        r"sales (?:executive|representative|rep|associate|consultant|specialist|advisor|manager|director|lead)s?",
        r"client partners?",
        r"account representatives?", r"territory (?:manager|executive|lead|representative)",
        r"new business (?:manager|executive)",
        r"ejecutiv[oa] (?:de (?:ventas|cuentas?)|comercial)",
        r"(?:representante|asesor[a]?|agente|gerente|vendedor[a]?) (?:de ventas|comercial)",
        r"vendedor[a]?", r"ventas", r"vertriebs?\w*",
        r"(?:commercial|ing[ée]nieur commercial|charg[ée]e? d'affaires)", r"executiv[oa] de (?:contas|vendas)",
    )),
    ("sales", "business development", _any(
        r"business development(?: (?:manager|lead|executive|director|specialist|associate))?",
        r"desarrollo de negocios", r"biz ?dev",
    )),
    ("sales", "sales development", _any(
        r"(?:business|sales) development representatives?", r"bdrs?", r"sdrs?", r"lead generation \w+",
        r"appointment setter",
    )),
    ("sales", "account management", _any(
        r"(?:key |strategic |technical |enterprise )?account (?:manager|management|coordinator|partner|director)s?",
        r"(?:client|customer) success(?: \w+)?",
        r"partner (?:manager|management|development manager|success)", r"client (?:manager|services|relationship)",
        r"relationship manager",
        r"partnerships?(?: manager| lead)?", r"gerente de cuentas?", r"key account", r"kundenbetreuer(?:in)?",
        r"strategic accounts",
    )),
    ("sales", "presales", _any(
        r"(?:sales|solutions?|pre[\s-]?sales) (?:engineer|architect|consultant)s?", r"pre[\s-]?sales",
    )),
    ("sales", "enablement", _any(r"sales (?:trainer|training|enablement|coach)(?: \w+)?")),
    ("operations", "", _any(
        r"operations?(?: (?:manager|analyst|specialist|associate|lead|coordinator|director))?",
        r"(?:biz|business|strategy|product|market|city)? ?ops",
        r"(?:gerente|jef[ae]|coordinador[a]?|analista|director[a]?|supervisor[a]?|encargad[oa]|l[íi]der"
        r"|especialista) de operaciones", r"operaciones",
        r"process (?:optimi[sz]ation|improvement|excellence)(?: \w+)?", r"continuous improvement(?: \w+)?",
        r"opera[çc][õo]es", r"chief of staff", r"betriebsleiter(?:in)?", r"responsable (?:des )?op[ée]rations?",
        r"general manager", r"(?:country|city|site|plant) manager",
    )),
    ("operations", "supply chain", _any(
        r"supply[\s-]chain(?: \w+)?", r"logistics(?: \w+)?", r"log[íi]stica", r"fulfil?lment(?: \w+)?",
        r"fleet(?: \w+)?", r"warehouse(?: \w+)?",
        r"cadena de suministro", r"inventory \w+", r"procurement(?: \w+)?",
        r"(?:strategic )?sourcing(?: analyst| manager)?", r"compras",
    )),
    ("operations", "commercial", _any(r"(?:sales|revenue|commercial|marketing|go-to-market|gtm) (?:operations"
                                      r"|ops)(?: \w+)?")),
    ("support", "", _any(
        r"(?:customer|technical|client|user|community|product|application|desktop)? ?support(?: (?:specialist"
        r"|representative|engineer|agent|analyst))?",
        r"customer (?:service|care|experience)(?: \w+)?", r"call cent(?:er|re)", r"service (?:team|desk)(?: \w+)?",
        r"help ?desk",
        r"atenci[óo]n al cliente", r"servicio al cliente", r"soporte(?: t[ée]cnico)?",
        r"(?:especialista de )?atendimento", r"kundenservice",
        r"coe specialist", r"implementation (?:specialist|consultant|manager)", r"onboarding specialist",
        r"investigat(?:ion|or)s?(?: specialist)?",
        r"claims? \w+",
    )),
    ("it", "", _any(
        r"(?:it|network|cloud) operations(?: \w+)?",
        r"it (?:operations|support|manager|specialist|technician|administrator|analyst|tech)(?: tech\w*)?",
        r"system(?:s)? administrators?", r"sysadmin",
        r"tech support", r"network administrator", r"administrador[a]? de sistemas",
    )),
    ("marketing", "", _any(
        r"(?:product |brand |growth |content |performance |digital |consumer |field )?marketing(?: \w+)?",
        r"marketer", r"brand manager", r"seo",
        r"social media(?: \w+)?", r"content (?:manager|strategist|writer|creator)", r"copywriter",
        r"growth (?:manager|lead|marketer)", r"mercadeo",
        r"(?:gerente|analista|coordinador[a]?) de marketing",
    )),
    ("finance", "", _any(
        r"(?:finance|financial|accounting) operations(?: \w+)?", r"financ(?:e|ial)(?: \w+)?",
        r"account(?:ant|ing)(?: \w+)?", r"controller", r"fp&a", r"audit(?:or)?", r"tax(?: \w+)?", r"treasury(?: \w+)?",
        r"payroll(?: \w+)?", r"sox", r"contador[a]?", r"finanzas", r"contabilidad", r"buchhalter(?:in)?",
        r"comptable", r"actuar(?:y|ial)",
        r"underwriter", r"business enablement", r"billing specialist",
        r"(?:gerente|analista) (?:financier[oa]|de finanzas)",
    )),
    ("risk", "", _any(
        r"(?:risk|fraud|compliance|safety|trust|kyc|aml|regulatory)(?: (?:and|&) \w+)?(?: (?:manager|analyst|officer"
        r"|specialist|lead|investigator))?",
        r"riesgos?", r"fraude", r"cumplimiento",
    )),
    ("legal", "", _any(
        r"legal operations(?: \w+)?", r"(?:legal|counsel|attorney|lawyer|paralegal|contracts manager)(?: \w+)?",
        r"abogad[oa]", r"jur[íi]dic[oa]", r"jurist", r"juriste",
    )),
    ("people", "", _any(
        r"(?:people|hr|talent|recruiting) operations(?: \w+)?",
        r"(?:human resources|hr|people|talent|hrbp)(?: (?:manager|partner|business partner|specialist|operations"
        r"|programs?|acquisition|ops|lead))*",
        r"recruit(?:er|ing|ment)(?: \w+)?", r"(?:talent )?sourcer", r"recursos humanos", r"reclutador[a]?",
        r"compensation(?: \w+)?", r"benefits \w+",
        r"learning (?:&|and) development", r"personal(?:referent|leiter)(?:in)?",
    )),
    ("communications", "", _any(r"communications?(?: \w+)?", r"public (?:policy|affairs|relations)",
    r"government (?:affairs|relations)", r"press officer")),
    ("administration", "", _any(
        r"(?:executive|administrative|personal|office|virtual) (?:assistant|manager|coordinator|business partner"
        r"|administrator)s?", r"receptionist",
        r"secretari[oa]", r"asistente (?:administrativ[oa]|ejecutiv[oa])", r"data entry(?: \w+)?",
    )),
    ("security", "", _any(r"security operations(?: \w+)?",
    r"security(?: (?:officer|guard|manager|analyst|investigator|specialist))?", r"guardia de seguridad")),
    ("quality control", "", _any(r"qc", r"quality (?:control|inspector|manager|specialist|analyst)")),
    ("writing", "", _any(r"technical writer", r"editor", r"journalist", r"translator", r"localization(?: \w+)?",
    r"redactor[a]?", r"traductor[a]?")),
    ("care", "", _any(
        r"(?:clinical|medical|hospital|nursing) operations(?: \w+)?", r"nurse(?: \w+)?", r"physician", r"doctor",
        r"therapist", r"caregiver", r"pharmacist", r"dentist", r"veterinar\w+", r"medical assistant",
        r"enfermer[oa]", r"m[ée]dic[oa]", r"pflegefachkraft|pfleger(?:in)?",
    )),
    ("teaching", "", _any(r"teacher", r"tutor", r"professor", r"instructor", r"lecturer", r"profesor[a]?", r"docente",
    r"lehrer(?:in)?")),
    ("manual work", "", _any(
        r"driver", r"mechanic", r"electrician", r"welder", r"carpenter", r"technician", r"operator", r"cook", r"chef",
        r"waiter", r"barista",
        r"cashier", r"cleaner", r"picker", r"packer", r"conductor[a]?", r"cociner[oa]", r"t[ée]cnic[oa]",
        r"mec[áa]nic[oa]", r"crew member",
        r"store (?:manager|associate)", r"retail associate", r"repartidor[a]?",
    )),
)  # fmt: skip
"""Family, subject within it, and the words of titles. Of several in a title the last counts: it is what one is."""

WEAK: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    (
        "software",
        "",
        _any(r"engineers?", r"engineering", r"architect", r"ingenier[oa]", r"ing[ée]nieur[e]?", r"ingenieur(?:in)?"),
    ),
    ("data science", "analysis", _any(r"analysts?", r"analista", r"analyste")),
    ("operations", "", _any(r"(?:strategy|strategic planning|business) (?:manager|associate|lead)", r"estrategia")),
    ("business analysis", "", _any(r"business (?:systems )?analysts?", r"analista (?:de negocios?|funcional)")),
)
"""What counts where no word of a family stands in a title."""

ABOUT: Mapping[str, tuple[tuple[str, re.Pattern[str]], ...]] = MappingProxyType({
    "software": (
        ("backend", _any(
            r"back[\s-]?end", r"distributed(?: systems?| architecture)?", r"micro[\s-]?services?", r"apis?",
            r"high availability", r"highly available",
            r"scalab\w+", r"low[\s-]latency", r"reliab\w+", r"qps", r"server[\s-]side", r"web services", r"golang",
            r"payments? platform",
        )),
        ("infrastructure", _any(
            r"infrastructure", r"kubernetes", r"cloud", r"platforms?", r"storage", r"databases?", r"service mesh",
            r"containers?", r"observability",
            r"networking", r"compute", r"linux", r"developer (?:tools|productivity)",
        )),
        ("frontend", _any(
            r"front[\s-]?end", r"react(?:\.?js)?", r"angular", r"vue", r"css", r"html5?", r"javascript",
            r"typescript", r"ui", r"web (?:app\w*|developer|engineer)",
            r"browser", r"accessibility",
        )),
        ("mobile", _any(r"ios", r"android", r"mobile (?:app\w*|engineer\w*|develop\w*)", r"swift", r"kotlin",
        r"objective-c", r"xcode", r"flutter")),
        ("full stack", _any(r"full[\s-]?stack")),
        ("data engineering", _any(r"etl", r"data (?:pipelines?|warehouse|lake|engineering|modell?ing)", r"spark",
        r"hadoop", r"airflow", r"flink", r"dbt")),
        ("machine learning", _any(
            r"machine learning", r"ml", r"deep learning", r"tensorflow", r"pytorch", r"neural", r"llms?",
            r"computer vision", r"fine[\s-]tun\w+",
            r"reinforcement learning", r"model training", r"training models", r"recommend(?:er|ation) systems?",
        )),
        ("security", _any(r"threats?", r"vulnerabilit\w+", r"incident response", r"penetration",
        r"cyber[\s-]?security", r"siem", r"cyber defen[sc]e")),
        ("quality", _any(r"test (?:plans?|cases?|automation)", r"selenium", r"manual testing", r"quality assurance")),
        ("embedded", _any(r"firmware", r"embedded", r"sensors?", r"robot\w*", r"rtos", r"hardware",
        r"microcontrollers?", r"calibration")),
        ("optimization", _any(r"operations research", r"gurobi", r"cplex", r"or[\s-]tools", r"linear programming",
        r"optimi[sz]ation (?:model\w*|packages?)")),
        ("business applications", _any(r"salesforce", r"sap", r"erp", r"servicenow", r"netsuite", r"apex",
        r"oracle (?:erp|ebs|fusion)")),
    ),
})  # fmt: skip
"""Words of a text by which one sees what the work is about where the title says it in general."""

IN_TITLES: Mapping[str, tuple[tuple[str, re.Pattern[str]], ...]] = MappingProxyType({
    "software": (
        ("backend", _any(r"back[\s-]?end", r"server[\s-]side", r"microservices", r"distributed systems", r"apis?")),
        ("infrastructure", _any(
            r"platforms?", r"infrastructure", r"cloud", r"compute", r"storage", r"databases?", r"devops", r"sre",
            r"site reliability", r"kubernetes",
            r"service mesh", r"networking", r"foundations?", r"developer (?:tools|experience|productivity)",
            r"observability", r"plataforma",
        )),
        ("frontend", _any(r"front[\s-]?end", r"web", r"ui", r"react(?:\.?js)?", r"angular", r"vue(?:\.?js)?",
        r"javascript")),
        ("mobile", _any(r"ios", r"android", r"mobile", r"react native", r"flutter", r"swift", r"m[óo]vil")),
        ("full stack", _any(r"full[\s-]?stack")),
        ("data engineering", _any(r"data (?:engineer\w*|platform|pipelines?|infrastructure)",
        r"analytics engineer\w*", r"etl", r"spark")),
        ("machine learning", _any(r"machine learning", r"ml(?:ops)?", r"computer vision", r"deep learning", r"nlp",
        r"ai engineer", r"perception")),
        ("security", _any(r"(?:application |product |cyber)?security", r"appsec")),
        ("quality", _any(r"qa", r"quality", r"test(?:ing| automation)?", r"sdet")),
        ("embedded", _any(r"embedded", r"firmware", r"robotics", r"sensors?", r"hardware", r"fpga")),
        ("optimization", _any(r"operations research", r"optimi[sz]ation")),
        ("business applications", _any(r"salesforce", r"sap", r"erp", r"servicenow", r"netsuite",
        r"applications? developer", r"atlassian")),
    ),
})  # fmt: skip

NEAR: Mapping[frozenset[str], float] = MappingProxyType({
    frozenset(pair): share
    for *pair, share in (
        ("backend", "infrastructure", 0.9), ("backend", "full stack", 0.85), ("backend", "data engineering", 0.7),
        ("infrastructure", "data engineering", 0.7), ("frontend", "full stack", 0.85), ("data engineering",
        "machine learning", 0.5),
        ("infrastructure", "full stack", 0.6), ("frontend", "mobile", 0.5), ("science", "analysis", 0.9),
        ("new business", "business development", 0.75),
        ("new business", "sales development", 0.6), ("business development", "sales development", 0.7),
        ("new business", "account management", 0.5),
        ("business development", "account management", 0.5), ("supply chain", "commercial", 0.7),
    )
})  # fmt: skip
"""How close two subjects of a family are; what is not named is far."""
FAR, GENERAL, OTHERWISE = 0.3, 0.9, 0.5

KIN: Mapping[frozenset[str], float] = MappingProxyType({
    frozenset(("software", "engineering")): 0.3, frozenset(("operations", "program")): 0.5, frozenset(("support",
    "sales")): 0.3,
    frozenset(("software", "data science")): 0.4, frozenset(("operations", "support")): 0.3, frozenset(("marketing",
    "sales")): 0.3,
    frozenset(("product", "program")): 0.5, frozenset(("finance", "data science")): 0.3, frozenset(("it",
    "software")): 0.3,
    frozenset(("business analysis", "data science")): 0.5, frozenset(("business analysis", "operations")): 0.5,
    frozenset(("risk", "operations")): 0.4, frozenset(("marketing", "operations")): 0.4, frozenset(("quality control",
    "operations")): 0.3,
})  # fmt: skip
"""How close different families are."""

LABORATORY = _any(
    r"chemi(?:stry|cal)",
    r"biolog(?:y|ical)",
    r"protein",
    r"cells?",
    r"clinical",
    r"materials",
    r"environmental",
    r"formulation",
    r"pharma\w*",
    r"assay",
    r"genom\w+",
    r"molecular",
    r"soil",
    r"food",
    r"immuno\w*",
    r"wet lab",
)
"""With one of these in its title a scientist is of a laboratory."""
