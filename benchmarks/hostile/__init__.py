"""Attacks: calls, files and interruptions that no user should make and some will."""
