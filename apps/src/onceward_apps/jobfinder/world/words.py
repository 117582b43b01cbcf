"""The words of which the invented web is made."""

from __future__ import annotations

FIRST = (
    "Alder", "Amber", "Basalt", "Birch", "Bramble", "Brass", "Cedar", "Cinder", "Clover", "Cobalt", "Copper", "Dapple",
    "Drift", "Ember", "Fennel", "Fern", "Flint", "Garnet", "Hazel", "Heather", "Indigo", "Ivory", "Juniper", "Kestrel",
    "Lantern", "Larch", "Linden", "Marl", "Meadow", "Nettle", "Ochre", "Osprey", "Pebble", "Quill", "Rowan", "Russet",
    "Saffron", "Sorrel", "Tern", "Thistle", "Umber", "Willow",
)  # fmt: skip
SECOND = (
    "acre", "barrow", "beck", "bridge", "brook", "croft", "dale", "field", "ford", "garth", "gate", "glen", "haven",
    "hollow", "hurst", "lathe", "loom", "mark", "mere", "moor", "path", "quay", "reach", "ridge", "spindle", "stead",
    "thorpe", "weir", "wharf", "wick",
)  # fmt: skip
"""One of FIRST and one of SECOND make the name of a company."""

INDUSTRIES = {
    "logistics": "moves freight: a supply chain that carriers and shippers see in one place",
    "health care": "keeps the calendars of clinics, so that patients wait less and nurses go home on time",
    "education": "gives teachers exercises that follow what their students already know",
    "financial technology": "settles payments between small firms on the day they are due",
    "climate and energy": "balances solar roofs, batteries and heat pumps, street by street",
    "developer tools": "makes an API platform on which developers build forms that never lose an answer",
    "e-commerce": "runs online stores for retailers who would rather make things than count boxes",
    "security": "finds threats in the logs of factories, a cyber security service with people on the phone",
}
"""What a company does."""

CITIES = (
    "Portland, OR", "Seattle, WA", "Denver, CO", "Austin, TX", "Chicago, IL", "Boston, MA", "Tucson, AZ", "Duluth, MN",
)  # fmt: skip
HOME = CITIES[0]

STACKS = (
    ("Python", "PostgreSQL", "Docker", "Kubernetes", "AWS"),
    ("Python", "PostgreSQL", "Docker", "Redis", "AWS"),
    ("Go", "PostgreSQL", "Kubernetes", "Docker", "AWS"),
    ("Python", "PyTorch", "machine learning", "LLM", "Docker"),
    ("Java", "MySQL", "Kubernetes", "Kafka"),
    ("Ruby", "PostgreSQL", "Redis"),
    ("TypeScript", "React", "Node.js", "GraphQL"),
    ("JavaScript", "Vue", "MongoDB"),
    ("PHP", "MySQL", "Redis"),
    ("C#", "Azure", "MySQL"),
    ("Rust", "Kafka", "PostgreSQL"),
    ("Scala", "Spark", "Kafka"),
)
"""What is worked with; the first ones suit the person of the demo best."""

ROLES = ("Backend Engineer", "Platform Engineer", "Python Developer", "Data Engineer", "Frontend Engineer")
LEVELS = ("", "Senior ", "Staff ", "Junior ", "Lead ")
OTHER_ROLES = ("Account Executive", "Product Designer", "Office Manager", "Recruiter", "Technical Writer")
TEAMS = (
    "Billing", "Search", "Calendars", "Forms", "Imports", "Reports", "Maps", "Mail", "Labels", "Alerts", "Archives",
    "Partners",
)  # fmt: skip

TASKS = (
    "design the services behind our product and the tables below them",
    "keep what runs at night as boring as what runs by day",
    "read other people's changes, and have yours read",
    "write down what you decided, so that the next person need not guess",
    "sit with those who use it, and take out what they do not need",
    "measure before and after",
)
VALUES = (
    "We write things down. Meetings are short, and quiet voices are heard in them.",
    "Everybody is on call for what they built, and asleep when it was built well.",
    "We pay within bands that all of us can read, and we close for two weeks in summer.",
    "New colleagues ship a small change in their first week, with an older hand beside them.",
)
