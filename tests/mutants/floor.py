"""How many mutants of a sample may survive before it is no chance any more."""

TO_BE_KILLED = 0.9
"""Share of all mutants that the tests have to notice."""

BY_CHANCE = 0.001
"""Of so many samples one fails although the tests notice as many as they have to."""


def allowed(tried: int) -> int:
    """The most survivors of a sample of this size that chance explains: 5 of 12, and ever closer to a tenth."""
    survivors, exactly = 0, TO_BE_KILLED**tried  # the binomial distribution, term by term
    at_most = exactly
    while at_most < 1.0 - BY_CHANCE and survivors < tried:
        exactly *= (tried - survivors) / (survivors + 1) * (1.0 - TO_BE_KILLED) / TO_BE_KILLED
        survivors += 1
        at_most += exactly
    return survivors
