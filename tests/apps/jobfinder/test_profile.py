"""The profile: what `init` writes can be meant, and what cannot be meant is an error that says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward import ConfigError
from onceward_apps.jobfinder import profile as profiles
from onceward_apps.jobfinder.finder import jobfinder
from onceward_apps.jobfinder.profile import parsed


def test_the_profile_that_init_writes_can_be_meant() -> None:
    found = parsed(profiles.template())
    assert found.ranks["python"] == 10
    assert found.places.office == "Portland"
    assert not found.models.extraction


def test_skills_have_the_names_that_technologies_have() -> None:
    assert parsed("[skills]\nGolang = 3\nPostgres = 5\nK8s = 1").ranks == {"go": 3, "postgresql": 5, "kubernetes": 1}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "without skills a listing scores at most 75, and match.min_score=80 cannot be reached"),
        ("[skills]\npython = 11", "the rank of 'python' is 11; it is from 1 to 10"),
        ("[skills]\npython = 5\n[exclusions]\ntechnologies = ['Python']", "python: among the skills, and excluded"),
        ("[skills]\npython = 5\n[places]\nwanted = []\nremote = 'no'", "every listing would be filtered"),
        ("[skills]\npython = 5\n[settings]\nmatch.min_score = 120", "match.min_score=120 cannot be reached"),
        (
            "[skills]\npython = 5\n[settings.match]\nmin_score = 60",
            "match.min_score=60 is below match.portland_score=65",
        ),
        ("[skills]\npython = 5\n[settings]\ncompany.tier_s = 500", "company.tier_s=500 cannot be reached"),
        ("[skills]\npython = 5\n[settings]\nmatch.minimum = 1", "there is no setting 'match.minimum'"),
        ("[skills]\npython = 5\n[settings]\nmatch.min_score = 'x'", "it is a whole number"),
        ("[skills]\npython = 'best'", "skills.python: a whole number is expected, not a text in quotes"),
        (
            "[person]\nlevels = ['guru']",
            "person.levels: 'guru' is none of intern, junior, mid, senior, staff, principal, lead, manager, director",
        ),
        ("[persona]\ntitles = []", "the profile has no 'persona'; it may have person, skills, places, salary"),
        ("[places]\nremote = 'maybe'", "places.remote: 'maybe' is none of required, fine, no"),
        ("[places]\ntown = 'x'", "places has no 'town'; it may have office, wanted, remote"),
        (
            "[filters.stop_list]\nhosts = []",
            "filters.stop_list has no 'hosts'; it may have companies, domains, keywords",
        ),
        ("[person]\ntitles = 'x'", "person.titles: a list in brackets is expected, not a text in quotes"),
        ("[skills\n", "Expected ']' at the end of a table declaration"),
        ("[skills]\npython = 5\n[filters.stop_list]\ndomains = ['*.x']", "looks like a pattern"),
        ("[skills]\npython = 5\n[person]\nmax_age_days = 0", "person.max_age_days at least 1"),
    ],
)
def test_what_cannot_be_meant_is_an_error_with_a_sentence(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(text, "me.toml")
    assert str(caught.value).startswith("me.toml: ")
    assert says in str(caught.value)


def test_a_profile_that_is_not_there_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`onceward-jobs init` writes one"):
        profiles.read(tmp_path / "nobody.toml")


def test_a_profile_may_change_the_defaults_of_settings() -> None:
    app = jobfinder("sqlite:///:memory:", parsed("[skills]\npython = 5\n[settings]\nmatch.min_score = 70"))
    assert app.settings.get("match.min_score") == 70
    assert app.settings.get("match.portland_score") == 65
    app.close()
