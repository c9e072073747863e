"""Numbers of the demonstration as people read them."""


def hours(seconds: float) -> str:
    """``24h 00m``: always hours, so that lengths of one day can be compared at a glance."""
    minutes = round(seconds / 60)
    return f"{minutes // 60}h {minutes % 60:02}m"
