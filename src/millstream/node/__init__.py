"""One running node, built from settings: parts are made, started and stopped in order here."""
