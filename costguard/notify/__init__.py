"""Telling people: messages are composed from facts and delivered by a short-lived worker."""
