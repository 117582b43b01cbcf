"""Onceward: a durable task engine."""
