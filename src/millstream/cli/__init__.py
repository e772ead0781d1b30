"""The command line: one file a noun, and the only place that prints.

Why: everything a person can do with Millstream at a terminal or in a script.
Invariants: data goes to stdout, words about it to stderr; `-o json|yaml|table` on every command that answers;
one-line errors that say what to do; exit codes as in `exits`; nothing heavy is imported before it is needed.
"""
