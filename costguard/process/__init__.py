"""How costguard's own processes are started, and what they say to each other: typed values, one line of JSON each."""
