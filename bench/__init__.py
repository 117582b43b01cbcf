"""What Onceward costs: each workload beside a hand-written floor, on the same database, in the same run.

The floor is a minimal queue with group commit and no other feature. It says what the database, the disk
and Python allow on this machine now, so the ratio engine / floor means the same on any machine.
Run it with `python -m bench`; README.md beside this file says how it measures.
"""
