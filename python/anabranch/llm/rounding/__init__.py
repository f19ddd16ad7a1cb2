"""How weights become integers of 4 bits: lines of groups, and what calls tell."""
