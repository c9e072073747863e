"""A day in the life of a simulated GPU machine, guarded by the real agent.

Only the machine is simulated (`costguard.testing.simhost`): loop, engine, sentences and messages are
those of the agent. Nothing is read from, or done to, the computer that it runs on.
"""
