"""Exercises: one file of data per chapter, and the four verbs over them."""

from keel.lab.exercises.verbs import check, hint, progress, solution

__all__ = ["check", "hint", "progress", "solution"]
