"""Attacks: hostile calls and files, kills and interrupts, mutated code."""
