"""The job finder of the environment, where worker processes find it: `onceward_apps.jobfinder.app:app`.

Which database and which profile it has, the environment says. Commands make theirs by `finder`, so that they can speak
of an invalid profile.
"""

from __future__ import annotations

from onceward_apps.jobfinder.finder import address, jobfinder, own_profile

app = jobfinder(address(), own_profile())
