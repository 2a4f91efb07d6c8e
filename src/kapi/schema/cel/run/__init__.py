"""Evaluation: checked trees compiled into closures that run on plain dictionaries within a budget."""
