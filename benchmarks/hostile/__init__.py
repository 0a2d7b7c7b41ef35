"""Attacks: hostile calls, hostile files, kills and interrupts."""
