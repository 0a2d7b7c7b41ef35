"""Beta process factor analysis."""
