"""An invented web on loopback: companies, their sites and every kind of job board, with their real protocols.

It ships with the project for the demo, the tests and the measurements. One process serves all hosts; everything that
it says follows from a seed. Names, places of work and texts are made up.
"""
