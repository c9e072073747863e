"""Stand-ins for the world outside, for costguard's own tests and for anybody who writes a plug-in."""
