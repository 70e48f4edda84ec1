"""The papers' experiments: one package per sheet, one runnable experiment per id, with its claims and its figures.

``registry.py`` knows them all; ``report.py`` says what an experiment is and gives.
"""
